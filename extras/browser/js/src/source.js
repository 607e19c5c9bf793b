// The sources of a bundle's bytes: memory, a File, or a server, from which only the needed parts are fetched.

import { joined } from "./bytes.js";
import {
  ArgumentError,
  bytesText,
  ChangedError,
  describeError,
  FetchError,
  FormatError,
  quoteName,
  repr,
} from "./errors.js";

/**
 * Bytes that are read in parts. `read` returns fewer bytes than requested only at the end.
 * @typedef {object} Source
 * @property {string} place The name in messages.
 * @property {number} size In bytes; -1 if unknown.
 * @property {(offset: number, length: number) => Promise<Uint8Array>} read
 * @property {() => void} [close]
 * @property {string[]} [digests] The SHA-256 that the head must have, by its address and by the options.
 */

/**
 * How a file is opened, and a URL fetched.
 * @typedef {object} FetchOptions
 * @property {string} [head] The SHA-256 of the file's head in hexadecimal, as behind `#devmod-head=` in a URL. Another file is refused.
 * @property {typeof globalThis.fetch} [fetch] Used instead of the browser's fetch.
 * @property {HeadersInit} [headers] Sent with each request.
 * @property {RequestCredentials} [credentials]
 * @property {AbortSignal} [signal] Aborts pending requests.
 */

/** The fragment of an address by digest, and the SHA-256 in it. */
const PINNED = /^#devmod-head=([0-9a-f]{64})$/;
const DIGEST = /^[0-9a-f]{64}$/;
/** The bytes of the first request. Most indexes and small bundles fit, and the head of 30,000 functions. */
const FIRST_REQUEST = 28 * 2 ** 10;

/**
 * @param {Uint8Array} data
 * @param {string} [place]
 * @returns {Source}
 */
function memorySource(data, place = "the bundle in memory") {
  const copy = data.slice(); // checked bytes must not change
  return {
    place,
    size: copy.length,
    read: async (offset, length) => copy.subarray(offset, offset + length),
  };
}

/**
 * @param {Blob} blob
 * @returns {Source}
 */
function blobSource(blob) {
  const place = blob instanceof File ? repr(blob.name) : "the bundle in a Blob";
  return {
    place,
    size: blob.size,
    async read(offset, length) {
      try {
        return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
      } catch (error) {
        throw new ChangedError(
          `${place} can no longer be read: it was changed or moved after it was opened. Open it again`,
          { cause: error },
        );
      }
    },
  };
}

/**
 * Open a file on a server. With range requests, only the parts that are read are fetched. Otherwise the response with the whole file is
 * read as far as needed. Changes of the file are detected by its ETag, date and size, and by the digests.
 * @param {URL} url
 * @param {FetchOptions} options
 * @returns {Promise<Source>}
 */
async function urlSource(url, options) {
  const get = new HttpFile(url, options);
  const first = await get.range(0, FIRST_REQUEST, {});
  if (first.status === 200) return new StreamSource(get, first);
  if (first.status === 416) return memorySource(new Uint8Array(0), get.place); // an empty file
  const head = await get.body(first, 0, FIRST_REQUEST);
  return new RangeSource(get, head, first);
}

class HttpFile {
  #url;
  #options;

  /**
   * @param {URL} url
   * @param {FetchOptions} options
   */
  constructor(url, options) {
    this.#url = url;
    this.#options = options;
    this.place = repr(
      url.protocol === "data:" || url.href.length > 200 ? `${url.href.slice(0, 200)}…` : url.href,
    );
  }

  /** Throw the caller's abort reason, if the caller has aborted. That is not a network error. */
  checkWanted() {
    this.#options.signal?.throwIfAborted();
  }

  /** Whether the page is from the same origin. For other origins, an additional header causes a preflight request. */
  get sameOrigin() {
    return !globalThis.location || this.#url.origin === globalThis.location.origin;
  }

  /**
   * Request a part of the file. Return the response: 206, 200 or 416.
   * @param {number} offset
   * @param {number} length
   * @param {Record<string, string>} more
   */
  async range(offset, length, more) {
    const {
      fetch = globalThis.fetch.bind(globalThis),
      headers,
      credentials = "same-origin",
      signal,
    } = this.#options;
    const sent = new Headers(headers);
    sent.set("Range", `bytes=${offset}-${offset + length - 1}`);
    for (const [name, value] of Object.entries(more)) sent.set(name, value);
    /** @type {Response} */
    let answer;
    try {
      answer = await fetch(this.#url, { headers: sent, credentials, signal: signal ?? null });
    } catch (error) {
      this.checkWanted();
      throw new FetchError(
        `${this.place} cannot be fetched: ${describeError(error)}. Check that the server is running and allows this page (CORS)`,
        {
          cause: error,
        },
      );
    }
    if (![200, 206, 416].includes(answer.status)) {
      await answer.body?.cancel();
      const words = `${answer.status} ${answer.statusText}`.trim();
      throw new FetchError(`${this.place} cannot be fetched: the server responded with ${words}`);
    }
    return answer;
  }

  /**
   * Read the next bytes of a response. Return false at its end.
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   * @param {Collector} parts Receives the bytes.
   * @param {string} [expected] How many there are in all, for messages.
   */
  async next(reader, parts, expected = "") {
    const { done, value } = await reader.read().catch((error) => {
      this.checkWanted();
      throw new FetchError(
        `${this.place}: the connection broke after ${parts.size}${expected} bytes: ${describeError(error)}`,
        { cause: error },
      );
    });
    if (!done) parts.add(value);
    return !done;
  }

  /**
   * Return the bytes of a 206 response. It must be the requested part, which may be shorter at the end of the file.
   * @param {Response} answer
   * @param {number} offset
   * @param {number} length
   */
  async body(answer, offset, length) {
    const wrong = (/** @type {string} */ got) =>
      new FetchError(
        `${this.place}: the server responded to a request for bytes ${offset} to ${offset + length - 1} with ${got}`,
      );
    const part = contentRange(answer);
    if (part && (part.first !== offset || part.last >= offset + length || part.last < part.first)) {
      await answer.body?.cancel();
      throw wrong(`bytes ${part.first} to ${part.last}`);
    }
    const expected = part ? part.last - part.first + 1 : length;
    const parts = new Collector();
    const reader = answer.body?.getReader();
    while (reader && (await this.next(reader, parts, ` of ${expected}`))) {
      if (parts.size <= expected) continue;
      await reader.cancel();
      throw wrong(`more than ${expected}`);
    }
    if (part && parts.size < expected)
      throw wrong(`${bytesText(parts.size)}, but its Content-Range has ${expected}`);
    return parts.slice(0, parts.size);
  }
}

/**
 * Return the Content-Range of a response, if the page can read it.
 * @param {Response} answer
 */
function contentRange(answer) {
  const found = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(
    answer.headers.get("Content-Range")?.trim() ?? "",
  );
  if (!found) return null;
  return {
    first: Number(found[1]),
    last: Number(found[2]),
    total: found[3] === "*" ? -1 : Number(found[3]),
  };
}

/** A file on a server with range requests. @implements {Source} */
class RangeSource {
  #get;
  #head;
  #tag;
  #date;
  #redirected;

  /**
   * @param {HttpFile} get
   * @param {Uint8Array} head The first bytes of the file.
   * @param {Response} first The response with these bytes.
   */
  constructor(get, head, first) {
    this.#get = get;
    this.#head = head;
    this.#tag = first.headers.get("ETag");
    this.#date = first.headers.get("Last-Modified");
    this.#redirected = first.redirected;
    this.place = get.place;
    this.size = contentRange(first)?.total ?? -1;
    if (this.size < 0 && head.length < FIRST_REQUEST) this.size = head.length;
  }

  /**
   * @param {number} offset
   * @param {number} length
   */
  async read(offset, length) {
    if (this.size >= 0) length = Math.max(0, Math.min(length, this.size - offset));
    const there = this.#head.subarray(offset, offset + length);
    if (there.length === length) return there;
    // Bytes that are already here are not requested again, for an index that is a little longer than the first part.
    const rest = await this.#fetch(offset + there.length, length - there.length);
    if (!there.length) return rest;
    return joined([there, rest]);
  }

  /**
   * @param {number} offset
   * @param {number} length
   */
  async #fetch(offset, length) {
    const strong =
      this.#tag && !this.#tag.startsWith("W/") && this.#get.sameOrigin && !this.#redirected;
    const answer = await this.#get.range(
      offset,
      length,
      strong ? { "If-Range": /** @type {string} */ (this.#tag) } : {},
    );
    if (answer.status === 416 && this.size < 0) return new Uint8Array(0); // the file is shorter than its index describes
    const total = contentRange(answer)?.total ?? -1;
    const tag = answer.headers.get("ETag");
    const date = answer.headers.get("Last-Modified");
    if (
      answer.status !== 206 ||
      tag !== this.#tag ||
      (!tag && date !== this.#date) ||
      (total >= 0 && this.size >= 0 && total !== this.size)
    ) {
      await answer.body?.cancel();
      throw new ChangedError(
        `${this.place} changed on the server while it was being read. Open it again`,
      );
    }
    return this.#get.body(answer, offset, length);
  }
}

/** A file on a server without range requests. The response is read as far as needed, and stored. @implements {Source} */
class StreamSource {
  #get;
  #reader;
  #closed = false;
  #parts = new Collector();
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * @param {HttpFile} get
   * @param {Response} answer
   */
  constructor(get, answer) {
    this.#get = get;
    this.place = get.place;
    this.size = answer.body ? -1 : 0;
    this.#reader = answer.body?.getReader();
  }

  /**
   * @param {number} offset
   * @param {number} length
   * @returns {Promise<Uint8Array>}
   */
  read(offset, length) {
    const turn = this.#turn
      .then(() => this.#fill(offset + length))
      .then(() => this.#parts.slice(offset, offset + length));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  close() {
    this.#closed = true;
    this.#reader?.cancel().catch(() => {});
  }

  /** @param {number} end */
  async #fill(end) {
    while (this.size < 0 && this.#parts.size < end) {
      const reader = /** @type {ReadableStreamDefaultReader<Uint8Array>} */ (this.#reader);
      const isMore = await this.#get.next(reader, this.#parts);
      if (this.#closed)
        throw new FetchError(`${this.place} was closed before all of it was read. Open it again`);
      if (!isMore) this.size = this.#parts.size;
    }
  }
}

/** Bytes that arrive in pieces. Memory is allocated only for bytes that have arrived. */
class Collector {
  #room = new Uint8Array(0);
  size = 0;

  /** @param {Uint8Array} piece */
  add(piece) {
    const needed = this.size + piece.length;
    if (needed > this.#room.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#room.length));
      larger.set(this.#room.subarray(0, this.size));
      this.#room = larger;
    }
    this.#room.set(piece, this.size);
    this.size = needed;
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  slice(start, end) {
    return this.#room.slice(start, Math.min(end, this.size));
  }
}

/**
 * Return the source for the argument of `open`, with the digests that its head must have.
 * @param {unknown} from
 * @param {FetchOptions} options
 * @returns {Promise<Source>}
 */
export async function sourceOf(from, options) {
  const digests = [];
  if (options.head !== undefined) digests.push(checkedDigest(options.head, "the option head"));
  if (typeof from !== "string" && !(from instanceof URL))
    return Object.assign(bytesSource(from), { digests });
  const url = urlOf(from);
  if (/devmod-head/i.test(url.hash)) {
    const subject = `the address ${quoteName(String(from))}`;
    digests.push(checkedDigest(PINNED.exec(url.hash)?.[1], subject));
    url.hash = "";
  }
  return Object.assign(await urlSource(url, options), { digests });
}

/**
 * Return a digest if it is one.
 * @param {unknown} digest
 * @param {string} subject What has it, for messages.
 */
function checkedDigest(digest, subject) {
  if (typeof digest === "string" && DIGEST.test(digest)) return digest;
  const expected = "64 lower-case hexadecimal digits, which devmod pin FILE prints";
  throw new ArgumentError(`${subject} is invalid: expected ${expected}, as in #devmod-head=…`, {
    kind: "bundle",
    argument: "head",
  });
}

/** @param {string | URL} address */
function urlOf(address) {
  try {
    return new URL(address, globalThis.document?.baseURI ?? globalThis.location?.href); // in a page or a worker
  } catch (error) {
    throw new FetchError(`${quoteName(String(address))} is not a valid URL`, { cause: error });
  }
}

/**
 * @param {unknown} from
 * @returns {Source}
 */
function bytesSource(from) {
  if (from instanceof Blob) return blobSource(from);
  if (from instanceof ArrayBuffer) return memorySource(new Uint8Array(from));
  if (ArrayBuffer.isView(from))
    return memorySource(new Uint8Array(from.buffer, from.byteOffset, from.byteLength));
  throw new FormatError(
    `expected a URL, a File, a Blob or bytes, got ${from === null ? "null" : typeof from}`,
  );
}
