// Making elements. Whatever comes from a file becomes text, never HTML.

/**
 * An element with properties and children; a string becomes text, and of a list each part is a child.
 * `class`, `aria-*`, `data-*` and `role` are attributes, `on…` listeners, all else properties.
 */
export function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class" || key === "role" || key === "for" || key.includes("-")) made.setAttribute(key, value);
    else made[key] = value;
  }
  fill(made, children);
  return made;
}

/** One after the other: a source of a stranger's may have more parts than a call may have arguments. */
function fill(made, children) {
  for (const child of children) {
    if (typeof child === "object" && child !== null && !(child instanceof Node)) fill(made, child);
    else if (child !== null && child !== undefined) made.append(child);
  }
}

/** What does not show by itself, or turns the direction of what follows, as its code: names come from strangers' files. */
export const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e01ef}]/u;

/** The same, cut where it is long: a name of a stranger's may be as long as the file. */
export function brief(text, most = 200) {
  if (text.length <= most) return visible(text);
  return `${visible([...text.slice(0, 2 * most)].slice(0, most).join(""))}… (${text.length.toLocaleString("en")} characters)`;
}

export function visible(text) {
  return [...text].map((char) => (ODD.test(char) || char === "\n" || char === "\t" ? code(char) : char)).join("");
}

export function code(char) {
  return `\\u{${char.codePointAt(0).toString(16)}}`;
}

/** A number of bytes for people, as `devmod inspect` writes it. */
export function size(count) {
  if (count < 1000) return `${count} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    count /= 1000;
    if (count < 1000 || unit === "GB") return `${count.toFixed(1)} ${unit}`;
  }
}
