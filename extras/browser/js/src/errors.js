// The errors of the package. The text has what failed, why, and what to do.

/**
 * The attributes of an error.
 * @typedef {object} Details
 * @property {string} [kind] The kind of module, as in "webgpu".
 * @property {string} [function] The name of the function.
 * @property {string} [argument] The name or number of the argument.
 * @property {string} [log] The whole output of a compiler.
 * @property {unknown} [cause] The underlying error.
 */

/** The base of all errors of this package. */
export class DevmodError extends Error {
  /**
   * @param {string} message
   * @param {Details} [details]
   */
  constructor(message, details = {}) {
    super(shorten(escaped(message)), "cause" in details ? { cause: details.cause } : undefined);
    this.name = new.target.name;
    /** The kind of module, as in "webgpu"; "" for none. */
    this.kind = details.kind ?? "";
    /** The function; "" for none. */
    this.function = details.function ?? "";
    /** The argument; "" for none. */
    this.argument = details.argument ?? "";
    /** The whole output of a compiler. */
    this.log = escaped(details.log ?? "");
  }
}

/** An error of a kernel or of a device: its kind is "webgpu" unless it has another. */
class DeviceError extends DevmodError {
  /**
   * @param {string} message
   * @param {Details} [details]
   */
  constructor(message, details) {
    super(message, { kind: "webgpu", ...details });
  }
}

/** A file or a module's bytes are invalid, damaged, or of a newer version. */
export class FormatError extends DevmodError {}
/** Only a newer devmod-webgpu can use a function of this file. Another module may have it in an older form. */
export class NewerError extends FormatError {
  /**
   * @param {string} message
   * @param {Details} details
   */
  constructor(message, details) {
    super(message, details);
    this.name = "FormatError"; // the name of the class that the package exports
  }
}
/** A file cannot be fetched, because of the server or the network. */
export class FetchError extends DevmodError {}
/** A file changed between two reads of it. */
export class ChangedError extends FetchError {}
/** The bundle has no module that a browser can run. */
export class NoModuleError extends DevmodError {}
/** No function has that name. */
export class FunctionNotFoundError extends DevmodError {}
/** The browser does not support WebGPU, or has no adapter. */
export class DeviceNotFoundError extends DeviceError {}
/** The device is lost: the driver was reset, or the device was destroyed. */
export class DeviceLostError extends DeviceError {}
/** A shader does not compile. `log` has the compiler's messages. */
export class CompileError extends DeviceError {}
/** An argument is wrong. Nothing was launched. */
export class ArgumentError extends DeviceError {}
/** A launch exceeds a limit of the device, or failed. */
export class LaunchError extends DeviceError {}

/** Return the error for a function of a webgpu module that is invalid. @param {string} text */
export function invalidFunction(text) {
  return new FormatError(text, { kind: "webgpu" });
}

/** The most characters of a message, and the number of them that are kept from its end. */
const [LONGEST, END] = [8000, 1000];

/**
 * Cut the middle of a long text. A name in a file may have megabytes.
 * @param {string} text
 */
function shorten(text) {
  if (text.length <= LONGEST) return text;
  const characters = [...text];
  if (characters.length <= LONGEST) return text;
  return `${characters.slice(0, LONGEST - END).join("")}… (${characters.length} characters) …${characters.slice(-END).join("")}`;
}

/**
 * Escape all characters that do not print, except newlines and tabs. Parts of the text may come from an untrusted file.
 * @param {string} text
 */
function escaped(text) {
  if (/^[\n\t -~]*$/.test(text)) return text; // the usual case
  let result = "";
  for (const char of text.replaceAll("\r\n", "\n"))
    result += char === "\n" || char === "\t" || prints(char) ? char : escape(char);
  return result;
}

/** @param {string} char */
function prints(char) {
  return char === " " || !/[\p{C}\p{Z}]/u.test(char);
}

/** @param {string} char */
function escape(char) {
  const code = /** @type {number} */ (char.codePointAt(0));
  if (char === "\n") return "\\n";
  if (char === "\r") return "\\r";
  if (char === "\t") return "\\t";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}

/**
 * Quote a string for a message, and escape characters that do not print. It may come from an untrusted file.
 * @param {string} text
 */
export function repr(text) {
  if (/^[ -&(-[\]-~]*$/.test(text)) return `'${text}'`; // the usual case
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let result = "";
  for (const char of text) {
    if (char === "\\" || char === quote) result += `\\${char}`;
    else result += prints(char) ? char : escape(char);
  }
  return quote + result + quote;
}

/**
 * Quote a name for a message. Long names are cut.
 * @param {string} name
 */
export function quoteName(name) {
  if (name.length <= 120) return repr(name);
  const length = [...name].length;
  return length <= 120
    ? repr(name)
    : `${repr([...name].slice(0, 100).join(""))}… (${length} characters)`;
}

/**
 * Return a number of bytes for a message: `1 byte`, `2 bytes`.
 *
 * @param {number | bigint | undefined} count
 */
export function bytesText(count) {
  return `${count} ${Number(count) === 1 ? "byte" : "bytes"}`;
}

/**
 * List names for a message: `'a', 'b'`.
 * @param {Iterable<string>} names
 */
export function listNames(names) {
  return listTexts([...names].map(quoteName), ", ", " and ") || "none";
}

/**
 * List texts for a message. At most twelve are listed: a file may have any number of them.
 * @param {string[]} texts
 * @param {string} separator
 * @param {string} last The separator before the number of the others.
 */
export function listTexts(texts, separator, last) {
  const most = 12;
  if (texts.length <= most) return texts.join(separator);
  return `${texts.slice(0, most).join(separator)}${last}${texts.length - most} more`;
}

/**
 * Return what `make` returns. Of its errors, those of a class are thrown as another error, which has their text as its reason.
 * @template T
 * @template {Error} E
 * @param {() => T} make
 * @param {new (...given: any[]) => E} Type
 * @param {(reason: string, error: E) => Error} refuse
 * @returns {T}
 */
export function restated(make, Type, refuse) {
  try {
    return make();
  } catch (error) {
    throw error instanceof Type ? refuse(error.message, error) : error;
  }
}

/**
 * Return the message of an error on one line.
 * @param {unknown} error
 */
export function describeError(error) {
  return (error instanceof Error ? error.message || error.name : String(error))
    .split(/\s*\n\s*/)
    .join(" ")
    .trim();
}
