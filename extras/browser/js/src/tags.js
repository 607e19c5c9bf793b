// TVM's launch parameter tags: the browser's copy of devmod's list (core/src/devmod/_values/tags.py).

import { repr } from "./errors.js";

/** The scopes of tags with an axis, in the order of `Plan.launch[].triple`: grid, block, cluster, preferred cluster. */
export const SCOPES = /** @type {const} */ ([
  "blockIdx",
  "threadIdx",
  "clusterCtaIdx",
  "preferredClusterCtaIdx",
]);
/** Dynamic shared memory, the last tag. Its value is the last launch value. */
export const DYNAMIC_SHARED_MEMORY = "tirx.use_dyn_shared_memory";
/** The start of the tag that has a digit for each buffer: `paramWriteAccess:[0,0,1]`. */
export const WRITE_ACCESS = "paramWriteAccess:";
/** The tags without a launch value. */
const FLAGS = [
  "tirx.use_cooperative_launch",
  "tirx.use_programtic_dependent_launch",
  "tirx.use_required_block_dimension",
];

/** The number of dynamic shared memory among the values of a launch, behind those of the scopes. */
export const SHARED_MEMORY = SCOPES.length;

/** The tags with a launch value: the number of the scope, and the axis. @type {ReadonlyMap<string, { triple: number, axis: number }>} */
const VALUES = new Map([
  ...SCOPES.flatMap((scope, triple) =>
    ["x", "y", "z"].map(
      (letter, axis) => /** @type {const} */ ([`${scope}.${letter}`, { triple, axis }]),
    ),
  ),
  [DYNAMIC_SHARED_MEMORY, { triple: SHARED_MEMORY, axis: 0 }],
]);

/**
 * Return the tags with a launch value, in the order of the values.
 * @param {readonly string[]} tags
 */
export function valueTags(tags) {
  return tags.flatMap((tag) => {
    const value = VALUES.get(tag);
    return value ? [{ tag, ...value }] : [];
  });
}

/**
 * Return why a function with these tags cannot be called, as the end of a sentence; "" if it can.
 * @param {readonly string[]} tags
 */
export function tagProblem(tags) {
  for (const [number, tag] of tags.entries()) {
    if (tag === DYNAMIC_SHARED_MEMORY && number !== tags.length - 1)
      return `its launch tag ${repr(tag)} is not the last`;
    if (VALUES.has(tag) || FLAGS.includes(tag) || tag.startsWith(WRITE_ACCESS)) continue;
    const others = [...FLAGS, DYNAMIC_SHARED_MEMORY].sort().join(", ");
    return `its launch tag ${repr(tag)} is unknown; expected ${SCOPES.join(", ")} with .x, .y or .z, or one of ${others}, ${WRITE_ACCESS}[…]`;
  }
  return "";
}
