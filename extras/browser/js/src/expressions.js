// Integer expressions of shapes and scalars, and their values in 64 bits. The rules and the messages are those of devmod in Python.

/** A whole number, a name, or an operator with its operands. @typedef {bigint | string | readonly [string, ...Operand[]]} Expression */
/** An expression within another one: TypeScript needs a name for it. @typedef {any} Operand */

/**
 * @param {bigint} one
 * @param {bigint} other
 */
function floored(one, other) {
  const quotient = one / other;
  return one % other && one < 0n !== other < 0n ? quotient - 1n : quotient;
}

/** The operators, as in Python, with their strength in a text. `min` and `max` take up to `MAX_OPERANDS`, the others two. */
const OPERATORS = /** @type {Map<string, [(...values: bigint[]) => bigint, number]>} */ (
  new Map([
    ["+", [(one, other) => one + other, 1]],
    ["-", [(one, other) => one - other, 1]],
    ["*", [(one, other) => one * other, 2]],
    ["//", [floored, 2]],
    ["%", [(one, other) => one - other * floored(one, other), 2]],
    ["min", [(...all) => all.reduce((one, other) => (other < one ? other : one)), 0]],
    ["max", [(...all) => all.reduce((one, other) => (other > one ? other : one)), 0]],
    ["ceildiv", [(one, other) => -floored(-one, other), 0]],
  ])
);
/** @type {Readonly<Record<string, (one: bigint, other: bigint) => boolean>>} */
export const COMPARISONS = {
  "==": (one, other) => one === other,
  "!=": (one, other) => one !== other,
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
};
/** The greatest depth of an expression, and the most operands of an operator. */
const MAX_DEPTH = 16,
  MAX_OPERANDS = 16;
/** The integers of 64 bits. */
export const [LEAST, MOST] = [-(2n ** 63n), 2n ** 63n - 1n];

/** An expression is invalid or has no value. The text is the reason, as a clause. */
export class ExpressionError extends Error {}

/**
 * Return the expression that arrays, texts and whole numbers of a file have.
 * @param {unknown} value
 * @param {number} [depth]
 * @returns {Expression}
 */
export function readExpression(value, depth = 0) {
  if (
    (typeof value === "bigint" && value >= LEAST && value <= MOST) ||
    (typeof value === "string" && value)
  )
    return value;
  if (Array.isArray(value) && value.length > 2 && OPERATORS.has(value[0])) {
    if (depth >= MAX_DEPTH)
      throw new ExpressionError(`has an expression that is nested more than ${MAX_DEPTH} deep`);
    const [name, ...operands] = value;
    if (
      operands.length === 2 ||
      (["min", "max"].includes(name) && operands.length <= MAX_OPERANDS)
    ) {
      return [name, ...operands.map((each) => readExpression(each, depth + 1))];
    }
  }
  throw new ExpressionError("has a value that is no integer expression");
}

/**
 * Return the value of an expression, from those of the names. Throw ExpressionError if it divides by zero or needs more than 64 bits.
 * @param {Expression} expression
 * @param {ReadonlyMap<string, bigint>} values
 * @returns {bigint}
 */
export function evaluate(expression, values) {
  if (typeof expression === "bigint") return expression;
  if (typeof expression === "string") return /** @type {bigint} */ (values.get(expression)); // the checks find each name bound
  const [name, ...operands] = expression;
  const numbers = operands.map((each) => evaluate(each, values));
  if (!["+", "-", "*", "min", "max"].includes(name) && !numbers[1])
    throw new ExpressionError(`${expressionText(expression)} divides by zero`);
  const result = /** @type {[(...values: bigint[]) => bigint, number]} */ (OPERATORS.get(name))[0](
    ...numbers,
  );
  if (result < LEAST || result > MOST)
    throw new ExpressionError(
      `${expressionText(expression)} is ${result}, which needs more than 64 bits`,
    );
  return result;
}

/**
 * Return the names in an expression; none for another value.
 * @param {unknown} expression
 * @returns {string[]}
 */
export function namesIn(expression) {
  if (typeof expression === "string") return [expression];
  return Array.isArray(expression) ? expression.slice(1).flatMap(namesIn) : [];
}

/**
 * Return an expression as Python has it: `rows * (columns + 1)`. `binding` is that of the operator around it.
 * @param {Expression} expression
 * @param {number} [binding]
 * @returns {string}
 */
export function expressionText(expression, binding = 0) {
  if (typeof expression !== "object") return String(expression);
  const [name, first, ...others] = expression;
  const strength = OPERATORS.get(name)?.[1] ?? 0;
  if (!strength)
    return `${name}(${[first, ...others].map((each) => expressionText(each)).join(", ")})`;
  const text = [
    expressionText(first, strength),
    ...others.map((each) => expressionText(each, strength + 1)),
  ].join(` ${name} `);
  return strength < binding ? `(${text})` : text;
}
