// The shape of a launch: grid and block as callers say them, or TVM's launch values behind the arguments.

import { ArgumentError, LaunchError } from "./errors.js";
import { signature } from "./plan.js";
import { told } from "./scalars.js";

/** @import { Plan } from "./plan.js" */

/** A number of blocks or threads: in x alone, or up to three for x, y, z. @typedef {number | readonly number[]} Dims */
/** What was asked for, and what is launched: the same but where TVM's shaders want x folded into z. @typedef {{ grid: Triple, launched: Triple }} Shape */
/** @typedef {[number, number, number]} Triple */

/**
 * The arguments without launch values, and the shape; null for a grid with a zero, which launches nothing.
 * @param {Plan} plan
 * @param {readonly unknown[]} args
 * @param {{ grid?: Dims, block?: Dims }} options
 * @param {Triple | null} fixed The shader's block.
 * @param {number} most How many blocks the device takes in each dimension.
 * @returns {{ values: readonly unknown[], shape: Shape | null }}
 */
export function readShape(plan, args, options, fixed, most) {
  const wrong = (/** @type {string} */ argument, /** @type {string} */ text) =>
    new ArgumentError(`${plan.described} ${text}`, { kind: "webgpu", argument });
  if (!Array.isArray(args)) throw wrong("", `takes its arguments as an array: run([…], { grid })`);
  const count = plan.args.length;
  const { grid, block } = options ?? {};
  const counted = (/** @type {string} */ word, /** @type {unknown} */ value, /** @type {string} */ what, /** @type {number} */ least) => {
    if (!Number.isSafeInteger(typeof value === "bigint" ? Number(value) : value)) throw wrong(word, `was given ${what}: ${told(value)} is not a whole number`);
    if (Number(value) < least) throw wrong(word, `was given ${what}: ${value} is not a count from ${least} up`);
    return Number(value);
  };
  const triple = (/** @type {string} */ word, /** @type {Dims} */ value, /** @type {number} */ least) => {
    const parts = Array.isArray(value) ? value : [value];
    const what = `${word}: ${Array.isArray(value) ? `[${value.map(told).join(", ")}]` : told(value)}`;
    if (parts.length < 1 || parts.length > 3) throw wrong(word, `was given ${what}; it is a number, or up to three of them for x, y, z`);
    const made = parts.map((part) => counted(word, part, what, least));
    return /** @type {Triple} */ ([made[0], made[1] ?? 1, made[2] ?? 1]);
  };
  /** @type {Triple} */
  let asked = [1, 1, 1];
  /** @type {Triple | null} */
  let threads = block === undefined ? null : triple("block", block, 1);
  if (plan.launch.length && args.length === count + plan.launch.length) {
    if (grid !== undefined || block !== undefined) {
      throw wrong("grid", "is called with grid or block and with launch values behind its arguments; give one of them");
    }
    /** @type {Triple} */
    const values = [1, 1, 1];
    plan.launch.forEach(({ tag, which, axis }, number) => {
      const value = counted(tag, args[count + number], `the launch value ${tag}`, which);
      (which ? values : asked)[axis] = value;
    });
    threads = plan.launch.some(({ which }) => which) ? values : null;
  } else if (args.length !== count) {
    const tags = plan.launch.map(({ tag }) => tag).join(", ");
    const behind = tags ? `; its launch values (${tags}) may follow them` : "";
    const named = count ? ` (${signature(plan)})` : "";
    throw wrong("", `takes ${count} argument${count === 1 ? "" : "s"}${named}${behind}; ${args.length} ${args.length === 1 ? "was" : "were"} given`);
  } else {
    if (grid === undefined) throw wrong("grid", "needs grid, the number of blocks: a number, or up to three of them for x, y, z");
    asked = triple("grid", grid, 0);
  }
  if (threads && fixed && threads.some((part, axis) => part !== fixed[axis])) {
    throw wrong("block", `is built for blocks of (${fixed.join(", ")}) threads, and (${threads.join(", ")}) was given; leave block out`);
  }
  const values = args.slice(0, count);
  if (asked.includes(0)) return { values, shape: null };
  const launched = plan.folds ? folded(plan, asked, most) : asked;
  launched.forEach((part, axis) => {
    if (part > most) {
      throw new LaunchError(
        `${plan.described} cannot be launched with a grid of (${asked.join(", ")}) blocks: ${part} in ${"xyz"[axis]}, and this device takes ` +
          `at most ${most} (maxComputeWorkgroupsPerDimension)`,
        { kind: "webgpu" },
      );
    }
  });
  return { values, shape: { grid: asked, launched } };
}

/**
 * x over the limit goes into z, as TVM's shaders read it: blockIdx.x = z · (blocks in x) + x. What is too much they skip.
 * @param {Plan} plan
 * @param {Triple} grid
 * @param {number} most
 * @returns {Triple}
 */
function folded(plan, [x, y, z], most) {
  if (z !== 1) {
    throw new LaunchError(`${plan.described} cannot be launched with ${z} blocks in z: a shader of TVM's takes its x from there`, { kind: "webgpu" });
  }
  const deep = Math.ceil(x / most);
  return [Math.ceil(x / deep), y, deep];
}
