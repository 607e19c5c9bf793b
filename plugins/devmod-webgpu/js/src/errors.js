// One family of errors. Each says what failed, on what, why, and what to do next.

/**
 * What an error may carry beside its text.
 * @typedef {object} Details
 * @property {string} [kind] The kind of module, as in "webgpu".
 * @property {string} [function] The function that was called or asked for.
 * @property {string} [argument] The argument, by its name or number.
 * @property {string} [log] What a compiler said, whole.
 * @property {unknown} [cause] What was raised below.
 */

/** The base of all errors of this package. */
export class DevmodError extends Error {
  /**
   * @param {string} message
   * @param {Details} [details]
   */
  constructor(message, details = {}) {
    super(message, "cause" in details ? { cause: details.cause } : undefined);
    this.name = new.target.name;
    /** The kind of module, as in "webgpu"; "" where none is meant. */
    this.kind = details.kind ?? "";
    /** The function; "" where none is meant. */
    this.function = details.function ?? "";
    /** The argument; "" where none is meant. */
    this.argument = details.argument ?? "";
    /** What a compiler said, whole. */
    this.log = details.log ?? "";
  }
}

/** A file or a module's bytes are not of their form, damaged, or of a newer version. */
export class FormatError extends DevmodError {}
/** A file could not be fetched: the server's answer, or the network. */
export class FetchError extends DevmodError {}
/** A file changed between two reads of it. */
export class ChangedError extends FetchError {}
/** The bundle has no module that a browser can run. */
export class NoModuleError extends DevmodError {}
/** There is no function of that name. */
export class FunctionNotFoundError extends DevmodError {}
/** This browser has no WebGPU, or there is no adapter. */
export class DeviceNotFoundError extends DevmodError {}
/** The device is gone: the driver was reset, or it was destroyed. */
export class DeviceLostError extends DevmodError {}
/** A shader does not compile; `log` is what the compiler said. */
export class CompileError extends DevmodError {}
/** A wrong argument, found before anything is launched. */
export class ArgumentError extends DevmodError {}
/** A launch that the device cannot do, or that it reported as failed. */
export class LaunchError extends DevmodError {}

/**
 * A string in a message, in quotes, with what does not print escaped: it may come from a stranger's file.
 * @param {string} text
 */
export function repr(text) {
  if (/^[ -&(-[\]-~]*$/.test(text)) return `'${text}'`; // nearly all
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let made = "";
  for (const char of text) {
    const code = /** @type {number} */ (char.codePointAt(0));
    if (char === "\\" || char === quote) made += `\\${char}`;
    else if (char === "\n") made += "\\n";
    else if (char === "\r") made += "\\r";
    else if (char === "\t") made += "\\t";
    else if (char === " " || !/[\p{C}\p{Z}]/u.test(char)) made += char;
    else if (code < 0x100) made += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (code < 0x10000) made += `\\u${code.toString(16).padStart(4, "0")}`;
    else made += `\\U${code.toString(16).padStart(8, "0")}`;
  }
  return quote + made + quote;
}

/**
 * A name from a file for a message, cut where it is long.
 * @param {string} name
 */
export function shown(name) {
  if (name.length <= 120) return repr(name);
  const length = [...name].length;
  return length <= 120 ? repr(name) : `${repr([...name].slice(0, 100).join(""))}… (${length} characters)`;
}

/**
 * Names for a message: `'a', 'b'` in their order, cut after twelve.
 * @param {Iterable<string>} names
 */
export function quoted(names) {
  const listed = [...names].map(shown);
  if (listed.length > 12) return `${listed.slice(0, 12).join(", ")} and ${listed.length - 12} more`;
  return listed.join(", ") || "none";
}

/**
 * Another's error in a message, on one line.
 * @param {unknown} error
 */
export function said(error) {
  return (error instanceof Error ? error.message || error.name : String(error)).split(/\s*\n\s*/).join(" ").trim();
}
