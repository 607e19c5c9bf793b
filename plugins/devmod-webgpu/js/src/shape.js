// The shape of a launch: from grid and block, or from TVM's launch values after the arguments.

import { ArgumentError, LaunchError } from "./errors.js";
import { SHARED_MEMORY, signature } from "./plan.js";
import { describeValue } from "./scalars.js";

/** @import { Plan } from "./plan.js" */

/** A number of blocks or threads in x, or up to three for x, y, z. @typedef {number | readonly number[]} Dims */
/** The requested grid and the launched grid. They differ if x is folded into z for TVM's shaders. @typedef {{ grid: Triple, launched: Triple }} Shape */
/** @typedef {[number, number, number]} Triple */

/**
 * Return the arguments without launch values, and the shape; null for a grid with a zero, which launches nothing.
 * @param {Plan} plan
 * @param {readonly unknown[]} args
 * @param {{ grid?: Dims, block?: Dims }} options
 * @param {Triple | null} fixed The shader's block.
 * @param {number} most The device's limit of blocks in each dimension.
 * @returns {{ values: readonly unknown[], shape: Shape | null }}
 */
export function readShape(plan, args, options, fixed, most) {
  const argumentError = (/** @type {string} */ argument, /** @type {string} */ text) =>
    new ArgumentError(`${plan.description} ${text}`, { kind: "webgpu", argument });
  if (!Array.isArray(args)) throw argumentError("", `takes its arguments as an array: run([…], { grid })`);
  const count = plan.args.length;
  const { grid, block } = options ?? {};
  const toCount = (/** @type {string} */ word, /** @type {unknown} */ value, /** @type {string} */ what, /** @type {number} */ least) => {
    if (!Number.isSafeInteger(typeof value === "bigint" ? Number(value) : value)) throw argumentError(word, `was given ${what}: ${describeValue(value)} is not a whole number`);
    if (Number(value) < least) throw argumentError(word, `was given ${what}: ${value} is less than ${least}`);
    return Number(value);
  };
  const triple = (/** @type {string} */ word, /** @type {Dims} */ value, /** @type {number} */ least) => {
    const parts = Array.isArray(value) ? value : [value];
    const what = `${word}: ${Array.isArray(value) ? `[${value.map(describeValue).join(", ")}]` : describeValue(value)}`;
    if (parts.length < 1 || parts.length > 3) throw argumentError(word, `was given ${what}; expected a number, or up to three numbers for x, y, z`);
    const result = parts.map((part) => toCount(word, part, what, least));
    return /** @type {Triple} */ ([result[0], result[1] ?? 1, result[2] ?? 1]);
  };
  /** @type {Triple} */
  let requested = [1, 1, 1];
  /** @type {Triple} */
  let cluster = [1, 1, 1];
  /** @type {Triple | null} */
  let threads = block === undefined ? null : triple("block", block, 1);
  if (plan.launch.length && args.length === count + plan.launch.length) {
    if (grid !== undefined || block !== undefined) {
      throw argumentError("grid", "is called with grid or block and with launch values after its arguments; pass only one of the two");
    }
    /** @type {Triple[]} */
    const triples = [requested, [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0]];
    plan.launch.forEach(({ tag, which, axis }, number) => {
      const value = toCount(tag, args[count + number], `the launch value ${tag}`, which === 0 || which === SHARED_MEMORY ? 0 : 1);
      /** @type {Triple} */ (triples[which])[axis] = value;
    });
    threads = plan.launch.some(({ which }) => which === 1) ? /** @type {Triple} */ (triples[1]) : null;
    const shared = triples[SHARED_MEMORY]?.[0];
    if (shared) throw argumentError("shared_memory", `cannot be given ${shared} bytes of shared memory: the shader fixes the size of its workgroup memory`);
    cluster = /** @type {Triple} */ (triples[2]);
  } else if (args.length !== count) {
    const tags = plan.launch.map(({ tag }) => tag).join(", ");
    const behind = tags ? `; its launch values (${tags}) may follow them` : "";
    const named = count ? ` (${signature(plan)})` : "";
    throw argumentError("", `takes ${count} argument${count === 1 ? "" : "s"}${named}${behind}; ${args.length} ${args.length === 1 ? "was" : "were"} given`);
  } else {
    if (grid === undefined) throw argumentError("grid", "needs grid, the number of blocks: a number, or up to three numbers for x, y, z");
    requested = triple("grid", grid, 0);
  }
  if (threads && fixed && threads.some((part, axis) => part !== fixed[axis])) {
    throw argumentError("block", `is built for blocks of (${fixed.join(", ")}) threads, and (${threads.join(", ")}) was given; omit block`);
  }
  const values = args.slice(0, count);
  if (requested.includes(0)) return { values, shape: null };
  if (cluster.some((part) => part !== 1)) {
    throw new LaunchError(`${plan.description} cannot be launched in clusters of (${cluster.join(", ")}) blocks: WebGPU does not support clusters`, { kind: "webgpu" });
  }
  const launched = plan.folds ? foldGrid(plan, requested, most) : requested;
  launched.forEach((part, axis) => {
    if (part > most) {
      throw new LaunchError(
        `${plan.description} cannot be launched with a grid of (${requested.join(", ")}) blocks: ${part} in ${"xyz"[axis]}, but the limit ` +
          `of this device is ${most} (maxComputeWorkgroupsPerDimension)`,
        { kind: "webgpu" },
      );
    }
  });
  return { values, shape: { grid: requested, launched } };
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
    throw new LaunchError(`${plan.description} cannot be launched with ${z} blocks in z: TVM's shaders fold large x into z`, { kind: "webgpu" });
  }
  const deep = Math.ceil(x / most);
  return [Math.ceil(x / deep), y, deep];
}
