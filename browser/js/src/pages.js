// The index of an open `.devmod` file. Its head names its pages, which are read when they are needed.

import { FormatError } from "./errors.js";
import { kept } from "./kept.js";
import {
  aligned,
  compareBytes,
  FREE_UNPACKED,
  readHead,
  readHeadFields,
  readPage,
  sameBytes,
  sha256,
} from "./head.js";

/** @import { Entry, Page } from "./head.js" */
/** @import { Source } from "./source.js" */

/** The deepest nesting of imports. */
const MAX_DEPTH = 64;
/** The number by which nodes without bytes may exceed the other modules. */
const MAX_BARE = 1024;

/** The index of a file. */
export class Index {
  #source;
  #place;
  #fields;
  #start;
  #total;
  #unpacking = { free: FREE_UNPACKED };
  /** The content of each page that was read or is being read. @type {Map<Page, Promise<{ entries: Entry[], names: Map<string, number[]> }>>} */
  #contents = new Map();
  /** The heights of the trees that were checked. @type {Map<number, number>} */
  #heights = new Map();
  /** All records, if they were read. @type {Entry[] | null} */
  entries = null;

  /**
   * Open a file. Of one page, all is read.
   * @param {Source} source
   */
  static async open(source) {
    const { head, end } = await readHead(source);
    const index = new Index(source, readHeadFields(head, end, source.place));
    if (
      index.#fields.pages.length === 1 ||
      (index.#fields.roots?.length ?? index.#fields.candidates) === 1
    )
      await index.readAll();
    return index;
  }

  /**
   * @param {Source} source
   * @param {ReturnType<typeof readHeadFields>} fields
   */
  constructor(source, fields) {
    this.#source = source;
    this.#place = `the index of ${source.place}`;
    this.#fields = fields;
    const { candidates, roots, pages } = fields;
    const last = /** @type {Page} */ (pages.at(-1));
    this.#start = aligned(last.at + last.size);
    const { size, place } = source;
    if (size >= 0 && size < this.#start)
      throw new FormatError(
        `${place} is cut short: ${size} bytes, and its index alone takes ${this.#start}`,
      );
    const total = (this.#total = this.#start + last.end);
    if (size >= 0 && size !== total) {
      const problem =
        size < total
          ? `is cut short: ${size} bytes`
          : `has ${size - total} bytes more than its index describes`;
      throw new FormatError(`${place} ${problem}; expected are ${total}`);
    }
    if (!(roots ? roots.length : candidates)) throw new FormatError(`${this.#place} has no root`);
    if (roots && new Set(roots).size !== roots.length)
      throw new FormatError(`${this.#place} names a root twice`);
  }

  /**
   * Read a part of the file. The bytes up to the next part must be zero; a page follows the page before.
   * @param {number} at
   * @param {number} size
   * @param {string} subject What the part is, for messages.
   * @param {string} [kind] The kind of its module.
   */
  async read(at, size, subject, kind = "") {
    const { place } = this.#source;
    const end = at + size;
    const { at: start, size: length } = /** @type {Page} */ (this.#fields.pages.at(-1));
    const next = end < start + length ? end : Math.max(end, Math.min(aligned(end), this.#total));
    const data = await this.#source.read(at, next - at);
    if (data.length < size)
      throw new FormatError(
        `${place} is cut short: ${subject} ${size} bytes, and ${data.length} are left`,
        { kind },
      );
    if (data.subarray(size).some(Boolean)) {
      throw new FormatError(
        `${place} is damaged: the bytes between two of its parts are not zero. Get the file again`,
      );
    }
    return data.subarray(0, size);
  }

  /**
   * Return a module's record, or that of sources.
   * @param {number} number
   * @param {boolean} [source]
   */
  async entry(number, source = false) {
    const page = this.#pageOf(number);
    const entry = page && (await this.#load(page)).entries[number - page.first];
    if (!entry || Boolean(entry.kind) === source) {
      throw new FormatError(
        `${this.#place} has no ${source ? "sources" : "module"} of the number ${number}`,
      );
    }
    return entry;
  }

  /**
   * Return the numbers of the candidates that have a function, in their order. The page of the name is read, and theirs.
   * @param {string} name
   */
  async find(name) {
    const page = this.#pageWith(name);
    if (!page) return [];
    const { names } = await this.#load(page);
    const others = names.get(name) ?? [];
    const numbers = await this.#owners(page, name);
    for (const number of others) {
      const theirs = this.#pageOf(number);
      this.#agree(theirs && theirs !== page && (await this.#owners(theirs, name)).includes(number));
      numbers.push(number);
    }
    const ranks = new Map();
    for (const number of numbers) ranks.set((await this.entry(number)).rank, number);
    this.#agree(ranks.size === numbers.length);
    return [...ranks]
      .sort(([one], [other]) => one - other)
      .map(([, number]) => /** @type {number} */ (number));
  }

  /**
   * Return the records of a module and of all below it, after a check of that tree.
   * @param {number} number
   */
  async below(number) {
    /** @type {Map<number, Entry>} */
    const entries = new Map();
    const found = new Set([number]);
    for (const each of found) {
      const entry = await this.entry(each);
      entries.set(each, entry);
      for (const child of entry.imports) found.add(child);
      if (found.size > MAX_BARE) await this.readAll(); // it has the limit on nodes
    }
    this.#check(number, (each) => /** @type {Entry} */ (entries.get(each)));
    return entries;
  }

  /** Read and check the whole index. Its pages are one request. */
  async readAll() {
    if (this.entries) return this.entries;
    const { pages } = this.#fields;
    const missing = pages.filter((page) => !this.#contents.has(page));
    if (missing.length > 1) {
      const at = /** @type {Page} */ (missing[0]).at;
      const last = /** @type {Page} */ (pages.at(-1));
      const data = await this.read(at, last.at + last.size - at, "pages of");
      for (const page of missing)
        await this.#load(page, data.subarray(page.at - at, page.at - at + page.size));
    }
    /** @type {Entry[]} */
    const entries = [];
    for (const page of pages) {
      for (const entry of (await this.#load(page)).entries) entries.push(entry);
    }
    const modules = entries.filter(({ kind }) => kind);
    const bare = modules.filter(({ offset }) => offset === null).length;
    const rest = modules.length - bare;
    if (bare - rest > MAX_BARE) {
      throw new FormatError(
        `${this.#place}: ${bare} nodes without bytes and ${rest} modules with some; there may be ${MAX_BARE} more of the first`,
      );
    }
    const candidates = ranked(entries);
    const roots = this.#fields.roots ?? candidates;
    const entryOf = (/** @type {number} */ number) => {
      const entry = entries[number];
      if (!entry?.kind)
        throw new FormatError(`${this.#place} has no module of the number ${number}`);
      return entry;
    };
    for (const root of roots) this.#check(root, entryOf);
    const walked = candidatesOf(roots, entries);
    this.#agree(
      candidates.length === this.#fields.candidates && walked.length === candidates.length,
    );
    this.#agree(
      candidates.every((number, at) => entries[number]?.rank === at && walked[at] === number),
    );
    entries.forEach(({ kind }, number) => {
      if (kind && !this.#heights.has(number))
        throw new FormatError(
          `${this.#place}: module ${number} is neither a candidate nor imported`,
        );
    });
    await this.#checkSources(entries);
    await this.#checkNames(entries);
    return (this.entries = entries);
  }

  /** The numbers of the roots. All must be read. */
  get roots() {
    return this.#fields.roots ?? this.candidates;
  }

  /** The numbers of the candidates in their order. All must be read. */
  get candidates() {
    return ranked(this.entries ?? []);
  }

  /** @param {unknown} condition */
  #agree(condition) {
    if (!condition)
      throw new FormatError(
        `${this.#place}: two parts of it describe a candidate in different ways`,
      );
  }

  /** @param {number} number */
  #pageOf(number) {
    const page = lastOf(this.#fields.pages, ({ first }) => first <= number);
    return page && number < page.first + page.count ? page : null;
  }

  /** @param {string} name */
  #pageWith(name) {
    const bytes = new TextEncoder().encode(name);
    return lastOf(
      this.#fields.pages,
      (page) => page.name !== null && compareBytes(page.name, bytes) <= 0,
    );
  }

  /**
   * Return the numbers of the candidates of a page that have a function.
   * @param {Page} page
   * @param {string} name
   */
  async #owners(page, name) {
    const { entries } = await this.#load(page);
    return [...entries.keys()]
      .filter((at) => entries[at]?.rank !== null && entries[at]?.functions.includes(name))
      .map((at) => page.first + at);
  }

  /**
   * @param {Page} page
   * @param {Uint8Array} [data]
   */
  #load(page, data) {
    return kept(this.#contents, page, () => this.#read(page, data));
  }

  /**
   * @param {Page} page
   * @param {Uint8Array} [part]
   */
  async #read(page, part) {
    const { place } = this.#source;
    const data = part ?? (await this.read(page.at, page.size, "a page of"));
    if (!sameBytes(await sha256(data), page.digest)) {
      throw new FormatError(
        `${place} is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again`,
      );
    }
    const content = readPage(data, page, this.#start, this.#unpacking, place);
    if (this.#fields.pages.length > 1 || !page.name) {
      const named = content.entries.filter(
        ({ rank, functions }) => rank !== null && functions.length,
      );
      for (const name of [
        ...named.map(({ functions }) => firstName(functions)),
        ...content.names.keys(),
      ])
        this.#agree(this.#pageWith(name) === page);
    }
    return content;
  }

  /**
   * Check that the tree below a module has no cycle and is not too deep.
   * @param {number} root
   * @param {(number: number) => Entry} entryOf
   */
  #check(root, entryOf) {
    /** @type {Set<number>} */
    const path = new Set();
    const height = (/** @type {number} */ number) => {
      if (path.has(number))
        throw new FormatError(
          `${this.#place}: module ${number} imports itself, directly or through others`,
        );
      let found = this.#heights.get(number) ?? 0;
      if (!found && path.size < MAX_DEPTH) {
        path.add(number);
        for (const child of entryOf(number).imports) found = Math.max(found, height(child));
        this.#heights.set(number, ++found);
        path.delete(number);
      }
      if (!found || path.size + found > MAX_DEPTH)
        throw new FormatError(
          `${this.#place}: module ${number} is more than ${MAX_DEPTH} imports deep`,
        );
      return found;
    };
    height(root);
  }

  /** @param {Entry[]} entries */
  async #checkSources(entries) {
    const used = new Set(entries.map(({ sources }) => sources).filter((number) => number !== null));
    const all = [...new Set([...used, ...entries.keys()])].filter(
      (number) => used.has(number) || !entries[number]?.kind,
    );
    for (const number of all.sort((one, other) => one - other)) {
      await this.entry(number, true);
      if (!used.has(number))
        throw new FormatError(`${this.#place}: no module has the sources ${number}`);
    }
  }

  /** @param {Entry[]} entries */
  async #checkNames(entries) {
    /** The candidates by the names that other pages have. @type {Map<string, Set<number>>} */
    const others = new Map();
    for (const [number, { rank, functions }] of entries.entries()) {
      for (const name of rank !== null ? functions : []) {
        if (this.#pageWith(name) !== this.#pageOf(number))
          others.set(name, (others.get(name) ?? new Set()).add(number));
      }
    }
    let count = 0;
    for (const page of this.#fields.pages) {
      for (const [name, numbers] of (await this.#load(page)).names) {
        const wanted = others.get(name);
        this.#agree(
          wanted &&
            wanted.size === numbers.length &&
            numbers.every((number) => wanted.delete(number)),
        );
        count++;
      }
    }
    this.#agree(count === others.size);
  }
}

/**
 * Return the last page of which a test is true. It is true of those before.
 * @param {Page[]} pages
 * @param {(page: Page) => boolean} test
 */
function lastOf(pages, test) {
  let [low, high] = [0, pages.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(/** @type {Page} */ (pages[middle]))) low = middle + 1;
    else high = middle;
  }
  return pages[low - 1] ?? null;
}

/** @param {Entry[]} entries */
function ranked(entries) {
  const numbers = [...entries.keys()].filter((number) => entries[number]?.rank !== null);
  const rank = (/** @type {number} */ number) => /** @type {number} */ (entries[number]?.rank);
  return numbers.sort((one, other) => rank(one) - rank(other));
}

/**
 * Return the candidates: in the place of a bundle are those of its imports.
 * @param {number[]} roots
 * @param {Entry[]} entries
 */
function candidatesOf(roots, entries) {
  const pending = [...roots].reverse();
  const [seen, found] = [new Set(), /** @type {number[]} */ ([])];
  for (let number = pending.pop(); number !== undefined; number = pending.pop()) {
    if (seen.has(number)) continue;
    seen.add(number);
    const entry = /** @type {Entry} */ (entries[number]);
    if (entry.kind !== "bundle") found.push(number);
    else for (const child of [...entry.imports].reverse()) pending.push(child);
  }
  return found;
}

/** Return the lowest name in UTF-8. @param {string[]} names */
function firstName(names) {
  const encoder = new TextEncoder();
  return names.reduce((one, other) =>
    compareBytes(encoder.encode(one), encoder.encode(other)) <= 0 ? one : other,
  );
}
