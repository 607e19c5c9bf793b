// The index of an open `.devmod` file. Its head names its pages, which are read when they are needed.

import { sameItems } from "./bytes.js";
import { bytesText, FormatError } from "./errors.js";
import { kept } from "./kept.js";
import {
  aligned,
  compareBytes,
  FREE_UNPACKED,
  readHead,
  readHeadFields,
  readPage,
  sha256,
} from "./head.js";

/** @import { Claim, Entry, Page, Role } from "./head.js" */
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
  /** The content of each page that was read or is being read. @type {Map<Page, Promise<ReturnType<typeof readPage>>>} */
  #contents = new Map();
  /** What pages of names have said of candidates of other pages, by number, with the names. @type {Map<number, { claim: Claim, names: Set<string> }>} */
  #claims = new Map();
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
    const { candidates, roots, align, pages, sections } = fields;
    const last = /** @type {Page} */ (pages.at(-1));
    this.#start = aligned(last.at + last.size, align);
    const { size, place } = source;
    if (size >= 0 && size < this.#start)
      throw new FormatError(
        `${place} is cut short: ${bytesText(size)}, and its index alone takes ${this.#start}`,
      );
    let total = this.#start + last.end;
    for (const length of sections) if (length) total = aligned(total) + length;
    this.#total = total;
    if (size >= 0 && size !== total) {
      const problem =
        size < total
          ? `is cut short: ${bytesText(size)}`
          : `has ${bytesText(size - total)} more than its index describes`;
      throw new FormatError(`${place} ${problem}; expected are ${total}`);
    }
    if (!(roots ? roots.length : candidates)) throw new FormatError(`${this.#place} has no root`);
    if (roots && new Set(roots).size !== roots.length)
      throw new FormatError(`${this.#place} names a root twice`);
  }

  /**
   * Read a part of the file. The bytes up to the next part must be zero, and those behind a multiple of 64; a page follows the page before.
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
    const lead = at >= this.#start && size ? at % 64 : 0;
    const whole = await this.#source.read(at - lead, next - at + lead);
    const data = whole.subarray(lead);
    if (data.length < size)
      throw new FormatError(
        `${place} is cut short: ${subject} ${bytesText(size)}, and ${data.length} are left`,
        { kind },
      );
    if (data.subarray(size).some(Boolean) || whole.subarray(0, lead).some(Boolean)) {
      throw new FormatError(
        `${place} is damaged: the bytes between two of its parts are not zero. Get the file again`,
      );
    }
    return data.subarray(0, size);
  }

  /**
   * Return the record of a module, of sources or of a part.
   * @param {number} number
   * @param {Role} [role]
   */
  async entry(number, role = "module") {
    const page = this.#pageOf(number);
    const entry = page && (await this.#load(page)).entries[number - page.first];
    if (!entry || entry.role !== role)
      throw new FormatError(`${this.#place} has no ${role} of the number ${number}`);
    const said = this.#claims.get(number);
    if (said)
      this.#agree(
        isSame(said.claim, entry) &&
          [...said.names].every((each) => entry.functions.includes(each)),
      );
    return entry;
  }

  /**
   * Return the numbers of the candidates that have a function, in their order. The page of the name alone is read.
   * @param {string} name
   */
  async find(name) {
    const page = this.#pageWith(name);
    if (!page) return [];
    const content = await this.#load(page);
    const owns = (/** @type {Entry} */ { rank, functions }) =>
      rank !== null && functions.includes(name);
    const numbers = content.entries.flatMap((entry, at) => (owns(entry) ? [page.first + at] : []));
    /** @type {Map<number | null, number>} */
    const ranks = new Map();
    for (const number of numbers) ranks.set((await this.entry(number)).rank, number);
    for (const claim of claimsOf(content, name)) {
      const { number, rank } = claim;
      const theirs = this.#pageOf(number);
      this.#agree(theirs && theirs !== page);
      const said = this.#claims.get(number) ?? { claim, names: new Set() };
      this.#agree(said.claim.rank === rank && sameItems(said.claim.variant, claim.variant));
      this.#claims.set(number, said);
      said.names.add(name);
      if (this.#contents.has(/** @type {Page} */ (theirs))) await this.entry(number);
      ranks.set(rank, number);
      numbers.push(number);
    }
    this.#agree(ranks.size === numbers.length);
    return [...ranks]
      .sort(([one], [other]) => Number(one) - Number(other))
      .map(([, number]) => /** @type {number} */ (number));
  }

  /**
   * Return the kind of a candidate that `find` has found in another page; null for others.
   * @param {number} number
   */
  foundKind(number) {
    return this.#claims.get(number)?.claim.variant[0] ?? null;
  }

  /**
   * Return the bytes that parts have; 0 if the index was not read.
   * @param {number[]} parts
   */
  partSize(parts) {
    const sizes = [...new Set(parts)].map((number) => this.entries?.[number]?.size ?? 0);
    return sizes.reduce((total, size) => total + size, 0);
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
    await this.#checkUsed(entries, "sources", ({ sources }) => (sources === null ? [] : [sources]));
    await this.#checkUsed(entries, "part", ({ parts }) => parts);
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
    if (!sameItems(await sha256(data), page.digest)) {
      throw new FormatError(
        `${place} is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again`,
      );
    }
    const content = readPage(data, page, this.#start, this.#unpacking, place);
    if (this.#fields.pages.length > 1 || !page.name) {
      const has = (/** @type {string} */ name) => this.#pageWith(name) === page;
      for (const { rank, functions } of content.entries)
        if (rank !== null && functions.length) this.#agree(functions.some(has));
      this.#agree([...content.names.keys(), ...content.owners].every(has));
    }
    for (const numbers of content.names.values()) {
      const positions = numbers.filter((_, at) => at % 3 === 2);
      if (numbers.length % 3 || positions.some((each) => each >= content.variants.length))
        throw new FormatError(
          `${this.#place}: the names of a page have another number of integers than three for each candidate, or a position beyond its variants`,
        );
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

  /**
   * Check that modules name records of a role, and each of them.
   * @param {Entry[]} entries
   * @param {Role} role
   * @param {(entry: Entry) => number[]} numbersOf
   */
  async #checkUsed(entries, role, numbersOf) {
    const used = new Set(entries.flatMap(numbersOf));
    const all = [...new Set([...used, ...entries.keys()])].filter(
      (number) => used.has(number) || entries[number]?.role === role,
    );
    for (const number of all.sort((one, other) => one - other)) {
      await this.entry(number, role);
      if (!used.has(number))
        throw new FormatError(`${this.#place}: no module has the ${role} ${number}`);
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
      const content = await this.#load(page);
      for (const name of content.names.keys()) {
        const wanted = others.get(name);
        const claims = [...claimsOf(content, name)];
        this.#agree(wanted?.size === claims.length);
        for (const claim of claims) {
          const entry = entries[claim.number];
          this.#agree(wanted?.delete(claim.number) && entry && isSame(claim, entry));
        }
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

/**
 * Yield what a page says of the candidates of other pages that have a function.
 * @param {ReturnType<typeof readPage>} content
 * @param {string} name
 * @returns {Generator<Claim>}
 */
function* claimsOf({ names, variants }, name) {
  const numbers = names.get(name) ?? [];
  for (let at = 0; at < numbers.length; at += 3) {
    const [number, rank, variant] = /** @type {[number, number, number]} */ (
      numbers.slice(at, at + 3)
    );
    yield { number, rank, variant: /** @type {string[]} */ (variants[variant]) };
  }
}

/**
 * Return whether a record is as a page of names says.
 * @param {Claim} claim
 * @param {Entry} entry
 */
function isSame({ rank, variant }, entry) {
  return entry.rank === rank && sameItems(variant, [entry.kind, entry.format, entry.variant]);
}
