// Making elements. Whatever comes from a file becomes text, never HTML.

/**
 * An element with properties and children; a string becomes text.
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
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** What does not show by itself, or turns the direction of what follows, as its code: names come from strangers' files. */
export const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/u;

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
