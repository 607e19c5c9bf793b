// Creating elements. Strings from a file become text, never HTML.

/**
 * Create an element with properties and children. A string child becomes text; a list child is flattened.
 * `class`, `aria-*`, `data-*` and `role` are set as attributes, `on…` as listeners, all others as properties.
 */
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class" || key === "role" || key === "for" || key.includes("-"))
      element.setAttribute(key, value);
    else element[key] = value;
  }
  fill(element, children);
  return element;
}

/** Return a button that is no part of a form. */
export function button(text, onclick, look = "plain") {
  return el("button", { class: look, type: "button", onclick }, text);
}

/** Append the children one by one. A source may have more parts than a call may have arguments. */
function fill(element, children) {
  for (const child of children) {
    if (typeof child === "object" && child !== null && !(child instanceof Node))
      fill(element, child);
    else if (child !== null && child !== undefined) element.append(child);
  }
}

/** Characters that are invisible or change the direction of text. They are shown as codes, because names come from untrusted files. */
export const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e01ef}]/u;

/** Make a text visible, and cut it if it is long. A name may be as long as the file. */
export function brief(text, most = 200) {
  if (text.length <= most) return visible(text);
  return `${visible([...text.slice(0, 2 * most)].slice(0, most).join(""))}… (${text.length.toLocaleString("en")} characters)`;
}

/** Replace invisible characters by their codes. */
export function visible(text) {
  return [...text]
    .map((char) => (ODD.test(char) || char === "\n" || char === "\t" ? code(char) : char))
    .join("");
}

/** Return the code of a character. */
export function code(char) {
  return `\\u{${char.codePointAt(0).toString(16)}}`;
}

/** Return a number of bytes with its unit, as `devmod inspect` prints it. */
export function size(count) {
  if (count < 1000) return `${count} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    count /= 1000;
    if (count < 1000 || unit === "GB") return `${count.toFixed(1)} ${unit}`;
  }
}
