// The shape of a launch: from grid and block, or from TVM's launch values after the arguments.

import { bytesText, LaunchError, repr } from "./errors.js";
import { didYouMean } from "./near.js";
import { arrange } from "./order.js";
import { callError } from "./plan.js";
import { SCOPES, SHARED_MEMORY } from "./tags.js";
import { describeValue } from "./scalars.js";
import { ownGrid } from "./tuning.js";

/** @import { Plan } from "./plan.js" */
/** @import { Variant } from "./tuning.js" */

const OPTIONS = ["grid", "threads", "block"];

/** A number of blocks or threads in x, or up to three for x, y, z. @typedef {number | readonly number[]} Dims */
/** The requested grid and the launched grid. They differ if x is folded into z for TVM's shaders. @typedef {{ grid: Triple, launched: Triple }} Shape */
/** @typedef {[number, number, number]} Triple */

/** The block of threads, and the grid of blocks. @typedef {{ grid: Triple, block: Triple | null }} LaunchConfig */
/**
 * The size of a launch: either `grid`, the number of blocks, or `threads`, the number of threads; x first. `block` is the number of
 * threads in a block, which the shader fixes.
 * @typedef {{ grid?: Dims, threads?: undefined, block?: Dims } | { grid?: undefined, threads?: Dims, block?: Dims }} LaunchOptions
 */

/**
 * Return the arguments in the kernel's order, and the shape; null for a grid with a zero, which launches nothing.
 * @param {Plan} plan
 * @param {unknown} args A record of arguments by name, or an array of them. Launch values may follow those of an array.
 * @param {LaunchOptions} options
 * @param {Triple | null} fixed The shader's block.
 * @param {number} most The device's limit of blocks in each dimension.
 * @param {Variant | null} [variant] The variant, which may have a grid of its own.
 * @returns {{ values: readonly unknown[], shape: Shape | null }}
 */
export function readShape(plan, args, options, fixed, most, variant) {
  const given = arrange(plan, args);
  const count = plan.args.length;
  const values = given.slice(0, count);
  const byValues = given.length > count;
  const read = () => {
    if (byValues) return readLaunchValues(plan, given.slice(count), options, fixed);
    if (!variant?.grid.length) return readConfig(plan, options, fixed);
    return { grid: ownGrid(plan, variant, options, ({ number }) => values[number]), block: fixed };
  };
  const config = read();
  if (config.grid.includes(0)) return { values, shape: null };
  const launched = launchedGrid(plan, config, options?.threads, most);
  return { values, shape: { grid: config.grid, launched } };
}

/**
 * Return the grid and the block of a call.
 * @param {Plan} plan
 * @param {LaunchOptions} options
 * @param {Triple | null} fixed
 * @returns {LaunchConfig}
 */
export function readConfig(plan, options, fixed) {
  const { grid, block, threads, ...others } = options ?? {};
  const [other] = Object.keys(others);
  if (other)
    throw callError(
      plan,
      `has no option ${repr(other)} of a launch; there is: ${OPTIONS.join(", ")}${didYouMean(other, OPTIONS)}`,
      other,
    );
  if (grid !== undefined && threads !== undefined) {
    const given = `was given grid=${describeDims(grid)} and threads=${describeDims(threads)}`;
    throw callError(
      plan,
      `${given}: give grid, the number of blocks, or threads, the number of threads`,
      "threads",
    );
  }
  if (grid === undefined && threads === undefined) {
    throw callError(
      plan,
      "needs threads, the number of threads, or grid, the number of blocks: a number, or up to three numbers for x, y, z",
      "grid",
    );
  }
  const requested =
    threads === undefined
      ? readTriple(plan, "grid", grid, 0)
      : readTriple(plan, "threads", threads, 0);
  const size = readBlock(
    plan,
    block === undefined ? null : readTriple(plan, "block", block, 1),
    fixed,
  );
  if (threads === undefined) return { grid: /** @type {Triple} */ (requested), block: size };
  if (!size)
    throw callError(
      plan,
      "needs block, the number of threads in a block: a number, or up to three numbers for x, y, z",
      "block",
    );
  return {
    grid: /** @type {Triple} */ (
      requested.map((part, axis) => Math.ceil(part / /** @type {number} */ (size[axis])))
    ),
    block: size,
  };
}

/**
 * @param {Plan} plan
 * @param {readonly unknown[]} given
 * @param {LaunchOptions} options
 * @param {Triple | null} fixed
 * @returns {LaunchConfig}
 */
function readLaunchValues(plan, given, { grid, block, threads } = {}, fixed) {
  if (grid !== undefined || block !== undefined || threads !== undefined) {
    const word = grid !== undefined ? "grid" : block !== undefined ? "block" : "threads";
    throw callError(
      plan,
      `is called with ${word === "threads" ? "threads" : "grid or block"} and with launch values after its arguments; give one of them`,
      word,
    );
  }
  /** Those of the scopes, and dynamic shared memory. @type {Triple[]} */
  const triples = [...SCOPES.map(() => /** @type {Triple} */ ([1, 1, 1])), [0, 0, 0]];
  plan.launch.forEach(({ tag, triple, axis }, number) => {
    const value = readCount(
      plan,
      tag,
      given[number],
      `the launch value ${tag}`,
      triple === 0 || triple === SHARED_MEMORY ? 0 : 1,
    );
    /** @type {Triple} */ (triples[triple])[axis] = value;
  });
  const [requested, threadsOf, cluster, , shared] =
    /** @type {[Triple, Triple, Triple, Triple, Triple]} */ (triples);
  if (shared[0]) {
    throw callError(
      plan,
      `cannot be given ${bytesText(shared[0])} of shared memory: the shader fixes the size of its workgroup memory`,
      "shared_memory",
    );
  }
  const size = readBlock(
    plan,
    plan.launch.some(({ triple }) => triple === 1) ? threadsOf : null,
    fixed,
  );
  if (!requested.includes(0) && cluster.some((part) => part !== 1)) {
    throw launchError(
      plan,
      "",
      `WebGPU does not support clusters; expected cluster=(1, 1, 1), got (${cluster.join(", ")})`,
    );
  }
  return { grid: requested, block: size };
}

/**
 * @param {Plan} plan
 * @param {Triple | null} given
 * @param {Triple | null} fixed
 */
function readBlock(plan, given, fixed) {
  if (given && fixed && given.some((part, axis) => part !== fixed[axis])) {
    throw callError(
      plan,
      `is built for blocks of (${fixed.join(", ")}) threads, and (${given.join(", ")}) was given; omit block`,
      "block",
    );
  }
  return fixed ?? given;
}

/**
 * Return the grid that is launched, within the device's limit.
 * @param {Plan} plan
 * @param {LaunchConfig} config
 * @param {Dims | undefined} threads The number of threads that was asked for.
 * @param {number} most
 */
function launchedGrid(plan, { grid, block }, threads, most) {
  const launched = plan.packed === null ? grid : foldGrid(plan, grid, most);
  const axis = launched.findIndex((part) => part > most);
  if (axis < 0) return launched;
  const needed =
    threads !== undefined && block
      ? `. threads=${shorten(readTriple(plan, "threads", threads, 0))} in blocks of ${shorten(block)} needs grid=${shorten(grid)}`
      : "";
  throw launchError(
    plan,
    "grid",
    `its maxComputeWorkgroupsPerDimension is ${most}, but grid=(${grid.join(", ")}) has more blocks in ${"xyz"[axis]}${needed}; launch in ` +
      "several parts, or let the kernel index more dimensions",
  );
}

/**
 * Return the dimensions as a user writes them: without ones at the end, and a number for x alone.
 * @param {Triple} dims
 */
function shorten([x, y, z]) {
  return z !== 1 ? `(${x}, ${y}, ${z})` : y !== 1 ? `(${x}, ${y})` : String(x);
}

/** @param {Dims} value */
function describeDims(value) {
  return Array.isArray(value) ? `[${value.map(describeValue).join(", ")}]` : describeValue(value);
}

/**
 * @param {Plan} plan
 * @param {string} argument
 * @param {string} text
 */
function launchError(plan, argument, text) {
  return callError(plan, `cannot be launched on this device: ${text}`, argument, LaunchError);
}

/**
 * @param {Plan} plan
 * @param {string} word
 * @param {unknown} value
 * @param {number} least
 * @returns {Triple}
 */
function readTriple(plan, word, value, least) {
  const parts = Array.isArray(value) ? value : [value];
  const subject = `${word}=${describeDims(/** @type {Dims} */ (value))}`;
  if (parts.length < 1 || parts.length > 3)
    throw callError(
      plan,
      `was given ${subject}: expected a number, or up to three numbers for x, y, z`,
      word,
    );
  const [x = 1, y = 1, z = 1] = parts.map((part) => readCount(plan, word, part, subject, least));
  return [x, y, z];
}

/**
 * @param {Plan} plan
 * @param {string} word
 * @param {unknown} value
 * @param {string} subject
 * @param {number} least
 */
function readCount(plan, word, value, subject, least) {
  const number = typeof value === "bigint" ? Number(value) : value;
  if (!Number.isSafeInteger(number))
    throw callError(
      plan,
      `was given ${subject}: ${describeValue(value)} is not a whole number`,
      word,
    );
  if (Number(number) < least)
    throw callError(
      plan,
      `was given ${subject}: ${number} is not a count of ${least} or more`,
      word,
    );
  return Number(number);
}

/**
 * Fold an x over the limit into z. TVM's shaders compute blockIdx.x = z · (blocks in x) + x, and skip surplus blocks.
 * @param {Plan} plan
 * @param {Triple} grid
 * @param {number} most
 * @returns {Triple}
 */
function foldGrid(plan, [x, y, z], most) {
  if (z !== 1) {
    throw launchError(
      plan,
      "grid",
      `grid=(${x}, ${y}, ${z}) has ${z} blocks in z, expected 1: TVM's shaders fold large x into z`,
    );
  }
  const deep = Math.ceil(x / most);
  return [Math.ceil(x / deep), y, deep];
}
