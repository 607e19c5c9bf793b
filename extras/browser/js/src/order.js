// The order of a call's arguments: an array has them by position, a record by name. A record in it has those of a block. The messages are those of devmod in Python.

import { listNames, repr, restated } from "./errors.js";
import { didYouMean } from "./near.js";
import { callError, label, signature } from "./plan.js";
import { BlockBytes } from "./records.js";
import { ConversionError, describeValue, isRecord } from "./scalars.js";

/** @import { Argument, BlockRecord, Plan } from "./plan.js" */

/**
 * Return the arguments of a call in the kernel's order. Launch values may follow them. Those of a block that was given as a record are
 * its BlockBytes.
 * @param {Plan} plan
 * @param {unknown} given An array, or a record of arguments by name.
 * @returns {readonly unknown[]}
 */
export function arrange(plan, given) {
  if (Array.isArray(given)) return checkCount(plan, given);
  if (!isRecord(given)) {
    throw callError(
      plan,
      `takes its arguments as a record by name or as an array: run({ … }, { grid }), run([…], { grid }); got ${describeValue(given)}`,
    );
  }
  /** By argument, the name in the call that gives it. @type {Map<Argument, string>} */
  const byName = new Map();
  /** @type {Map<string, BlockRecord>} */
  const records = new Map();
  for (const name of Object.keys(given)) {
    const named = name ? plan.args.filter((each) => each.name === name) : [];
    if (named.length > 1)
      throw callError(plan, `has several arguments ${repr(name)}: give them by position`, name);
    const record = named.length ? undefined : plan.records().get(name);
    if (!named.length && !record) throw unknown(plan, name);
    if (record) records.set(name, record);
    for (const argument of record?.args ?? named) {
      const other = byName.get(argument);
      if (other !== undefined) {
        const text = `got ${label(argument)} twice: by name and in the record ${record ? name : other}; ${takes(plan)}`;
        throw callError(plan, text, argument.name);
      }
      byName.set(argument, name);
    }
  }
  checkMissing(
    plan,
    plan.args.filter((argument) => !byName.has(argument)),
    [],
  );
  const blocks = new Map(
    [...records].map(([name, record]) => [name, blockOf(plan, name, record, given[name])]),
  );
  return plan.args.map((argument) => {
    const name = byName.get(argument) ?? "";
    return blocks.get(name) ?? given[name];
  });
}

/**
 * Return the content of the block that a record gives.
 * @param {Plan} plan
 * @param {string} name The record's name in the call.
 * @param {BlockRecord} record
 * @param {unknown} value
 */
function blockOf(plan, name, record, value) {
  return restated(
    () => new BlockBytes(record.pack(value)),
    ConversionError,
    (reason, { path }) => {
      const [member] = path.slice(name.length + 1).split(/[.[]/, 1);
      return callError(plan, `got an invalid record ${name}: ${reason}`, member || name);
    },
  );
}

/**
 * @param {Plan} plan
 * @param {string} name
 */
function unknown(plan, name) {
  const names = [...plan.args.map((each) => each.name).filter(Boolean), ...plan.records().keys()];
  const struct = plan.args.find(({ members }) => members.includes(name));
  const hint = struct?.name
    ? `. ${repr(name)} is a member of ${repr(struct.name)}`
    : didYouMean(name, names);
  return callError(plan, `has no argument ${repr(name)}; ${takes(plan)}${hint}`, name);
}

/**
 * @param {Plan} plan
 * @param {readonly unknown[]} given
 */
function checkCount(plan, given) {
  const count = plan.args.length;
  if (given.length === count || (plan.launch.length && given.length === count + plan.launch.length))
    return given;
  if (given.length > count) throw callError(plan, wrongCount(plan, given.length));
  checkMissing(plan, plan.args.slice(given.length), given);
  return given;
}

/**
 * @param {Plan} plan
 * @param {Plan["args"]} missing
 * @param {readonly unknown[]} given The arguments by position.
 */
function checkMissing(plan, missing, given) {
  const [first] = missing;
  if (!first) return;
  const byName = missing.every(
    ({ name }) => name && plan.args.filter((each) => each.name === name).length === 1,
  );
  if (!byName && plan.packed !== null) throw callError(plan, wrongCount(plan, given.length));
  const listed = byName
    ? listNames(missing.map(({ name }) => name))
    : missing.map(label).join(", ");
  const [keyword, record] =
    [...plan.records()].find(([, each]) =>
      missing.some((argument) => each.args.includes(argument)),
    ) ?? [];
  const hasRecord = given.some((each) => Object.getPrototypeOf(each ?? 0) === Object.prototype);
  const hint =
    hasRecord && record
      ? `. A record is given by name: ${keyword}: {…} in place of ${listNames(record.args.map(({ name }) => name))}`
      : "";
  throw callError(
    plan,
    `is missing ${missing.length === 1 ? "an argument" : "arguments"}: ${listed}; ${takes(plan)}${hint}`,
    first.name,
  );
}

/** @param {Plan} plan */
function takes(plan) {
  return `it takes ${countText(plan)}`;
}

/** @param {Plan} plan */
function countText(plan) {
  const count = plan.args.length;
  return `${count} argument${count === 1 ? "" : "s"}${count ? ` (${signature(plan)})` : ""}`;
}

/**
 * @param {Plan} plan
 * @param {number} count The number of arguments by position.
 */
function wrongCount(plan, count) {
  const tags = plan.launch.map(({ tag }) => tag).join(", ");
  let behind = "";
  if (tags && !plan.hasInterface) behind = `; its launch values (${tags}) may follow them`;
  else if (tags && count > plan.args.length)
    behind = "; the launch is given by name, with threads or grid";
  return `takes ${countText(plan)}${behind}; ${count} ${count === 1 ? "was" : "were"} given`;
}
