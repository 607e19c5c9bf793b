// Colours for WGSL and the C-like languages. Tokens are matched without parsing, so invalid sources are shown, too.

import { code, el, ODD } from "./dom.js";

const C = {
  keyword:
    "if else for while do switch case default break continue return goto sizeof typedef struct union enum const volatile static extern inline register " +
    "restrict auto signed unsigned template typename class namespace using public private operator new delete this true false nullptr constexpr " +
    "__kernel kernel __global global __local local __constant constant __private private __global__ __device__ __host__ __shared__ __constant__ " +
    "__restrict__ __launch_bounds__ __attribute__ device thread threadgroup vertex fragment layout uniform buffer shared in out inout readonly writeonly",
  type:
    "void bool char short int long float double half uchar ushort uint ulong size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t " +
    "uint32_t uint64_t atomic_int atomic_uint mat2 mat3 mat4 dim3",
  vector: /^(?:u?(?:char|short|int|long)|float|double|half|[biud]?vec)(?:2|3|4|8|16)$/,
};
const WGSL = {
  keyword:
    "alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop override requires " +
    "return struct switch true var while storage uniform workgroup private function read write read_write",
  type: "bool f16 f32 i32 u32 atomic array vec2 vec3 vec4 mat2x2 mat2x3 mat2x4 mat3x2 mat3x3 mat3x4 mat4x2 mat4x3 mat4x4 ptr sampler",
  vector: /^(?:vec[234][fiuh]|mat[234]x[234][fh]|texture_\w+)$/,
};
const PTX = {
  keyword:
    "version target address_size visible entry param reg shared global local const func extern align maxntid reqntid",
  type: "",
  vector: /^[busf](?:8|16|32|64)$|^pred$/,
};
const JS = {
  keyword: "import export from const let await async function return new",
  type: "",
  vector: /^$/,
};
const LANGUAGES = { wgsl: WGSL, ptx: PTX, js: JS };
const TOKENS =
  /(?<comment>\/\/[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<string>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])'?)|(?<mark>@\w+|^[ \t]*#[ \t]*\w+|\[\[[\w()]+\]\])|(?<number>\b(?:0[xX][\da-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|(?<=\D)\.\d+)[a-zA-Z]*)|(?<word>[A-Za-z_$]\w*)/gm;
/** Longer sources are shown without colours or are cut, because the layout takes too long. */
const MOST_COLOURED = 150_000;
const MOST_SHOWN = 1_000_000;

/** Return a source as a block with line numbers. */
export function sourceBlock(text, format, label) {
  const shown = text.slice(0, MOST_SHOWN);
  const pre = el(
    "pre",
    {},
    el("code", {}, shown.length > MOST_COLOURED ? plain(shown) : coloured(shown, format)),
  );
  if (shown.length < text.length)
    pre.append(el("span", { class: "t-odd" }, `\n… ${text.length - shown.length} more characters`));
  const count = shown.replace(/\n$/, "").split("\n").length;
  const numbers = el(
    "pre",
    { class: "lines", "aria-hidden": "true" },
    Array.from({ length: count }, (_, at) => at + 1).join("\n"),
  );
  return el(
    "div",
    { class: "source", tabIndex: 0, role: "region", "aria-label": label },
    numbers,
    pre,
  );
}

function* coloured(text, format) {
  const language = Object.hasOwn(LANGUAGES, format) ? LANGUAGES[format] : C;
  const keywords = new Set(language.keyword.split(" "));
  const types = new Set(language.type.split(" "));
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    yield* plain(text.slice(at, found.index));
    at = found.index + found[0].length;
    const { word } = found.groups;
    let category = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    if (word) {
      if (keywords.has(word)) category = "keyword";
      else if (types.has(word) || language.vector.test(word)) category = "type";
      else category = /^\s*\(/.test(text.slice(at, at + 20)) ? "call" : "";
    }
    const parts = [...plain(found[0])];
    if (category) yield el("span", { class: `t-${category}` }, parts);
    else yield* parts;
  }
  yield* plain(text.slice(at));
}

/** Yield a text with the codes of characters that are invisible or change the direction. */
function* plain(text) {
  if (!ODD.test(text)) {
    if (text) yield text;
    return;
  }
  for (const part of text.split(new RegExp(`(${ODD.source})`, "u"))) {
    if (part) yield ODD.test(part) ? el("span", { class: "t-odd" }, code(part)) : part;
  }
}
