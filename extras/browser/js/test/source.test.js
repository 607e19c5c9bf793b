// Bundles on a server: with and without range requests, with wrong responses, and with changing files.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import {
  ArgumentError,
  ChangedError,
  FetchError,
  FormatError,
  NoModuleError,
  open,
} from "../src/index.js";
import { Index } from "../src/pages.js";
import { sourceOf } from "../src/source.js";

const SMALL = readFileSync(new URL("../../../../tests/golden/v1/program.devmod", import.meta.url));

/** Return a bundle of two modules. The first one is large and has wrong bytes, which shows if it is read. */
function large(size) {
  const digest = (data) => crypto.subtle.digest("SHA-256", data);
  return (async () => {
    const second = Buffer.from([0x80, 0x80]); // no functions, no shaders
    const offset = Math.ceil(size / 64) * 64;
    const bin = async (data) =>
      Buffer.concat([Buffer.from([0xc4, 32]), Buffer.from(await digest(data))]);
    const str = (text) => Buffer.concat([Buffer.from([0xa0 | text.length]), Buffer.from(text)]);
    const int = (value) => {
      const made = Buffer.alloc(9, 0xcf);
      made.writeBigUInt64BE(BigInt(value), 1);
      return made;
    };
    const module = async (kind, format, rank, data, length) =>
      Buffer.concat([
        Buffer.from([0x85]),
        str("kind"),
        str(kind),
        str("format"),
        str(format),
        str("rank"),
        Buffer.from([rank]),
        str("size"),
        int(length),
        str("sha256"),
        await bin(data),
      ]);
    const page = Buffer.concat([
      Buffer.from([0x81]),
      str("modules"),
      Buffer.from([0x92]),
      await module("cuda", "ptx", 0, Buffer.alloc(0), size),
      await module("webgpu", "wgsl", 1, second, 2),
    ]);
    const head = Buffer.concat([
      Buffer.from([0x82]),
      str("candidates"),
      Buffer.from([2]),
      str("pages"),
      Buffer.from([0x91, 0x96, 2]),
      int(page.length),
      int(offset + 2),
      await bin(page),
      Buffer.from([0, 0xc4, 0]),
    ]);
    const header = Buffer.alloc(48);
    Buffer.from([0x89, 0x64, 0x65, 0x76, 0x6d, 0x6f, 0x64, 0x0a]).copy(header);
    header.writeUInt32LE(6, 8);
    header.writeUInt32LE(head.length, 12);
    Buffer.from(await digest(head)).copy(header, 16);
    const start = Math.ceil((48 + head.length + page.length) / 64) * 64;
    const made = Buffer.alloc(start + offset + 2);
    Buffer.concat([header, head, page]).copy(made);
    second.copy(made, start + offset);
    return made;
  })();
}

let server;
let address;
/** How the next requests are answered: (request, response, range) with the range's first and last byte or null. */
let answer;
let log;

before(async () => {
  server = createServer((request, response) => {
    const found = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    log.push(request.headers.range ?? "whole");
    answer(request, response, found && { first: Number(found[1]), last: Number(found[2]) });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${server.address().port}/k.devmod`;
});
after(() => server.close());

/** Respond like a server with range requests. */
const ranges =
  (data, headers = { ETag: '"one"' }) =>
  (_request, response, { first, last }) => {
    const end = Math.min(last + 1, data.length);
    response.writeHead(206, {
      "Content-Range": `bytes ${first}-${end - 1}/${data.length}`,
      ...headers,
    });
    response.end(data.subarray(first, end));
  };
const whole = (data) => (_request, response) => response.writeHead(200).end(data);
const serve = (how) => {
  answer = how;
  log = [];
};
const refusal = async (what, Sort, pattern) => {
  await assert.rejects(what, (error) => {
    assert.equal(error.constructor, Sort, String(error.stack));
    assert.match(error.message, pattern);
    return true;
  });
};

test("a small bundle comes with one request", async () => {
  serve(ranges(SMALL));
  const bundle = await open(address);
  for (const module of bundle.modules) await module.contents();
  assert.deepEqual(log, ["bytes=0-28671"]);
  assert.equal(bundle.size, SMALL.length);
});

test("of a large bundle only the head and the used module are fetched", async () => {
  const data = await large(5_000_000);
  serve(ranges(data));
  const bundle = await open(new URL(address));
  assert.deepEqual([...(await bundle.modules[1].functions()).keys()], []);
  assert.deepEqual(log, ["bytes=0-28671", `bytes=${data.length - 2}-${data.length - 1}`]);
  await refusal(
    bundle.modules[0].bytes(),
    FormatError,
    /the cuda module is damaged: its SHA-256 is not the one in the index/,
  );
});

test("of a library the head and the pages of a function are fetched, and all pages at once", async () => {
  const library = readFileSync(
    new URL("../../../../tests/golden/v1/library.devmod", import.meta.url),
  );
  serve(ranges(library));
  const bundle = await open(address);
  assert.equal(bundle.listed, false);
  assert.throws(() => bundle.modules, ArgumentError);
  await refusal(bundle.getFunction("größe"), NoModuleError, /^'http.*' has no webgpu module/);
  assert.equal(bundle.modules.length, 72);
  assert.equal(log.length, 3); // the head, a page, the other page
  serve(ranges(library));
  const index = await Index.open(await sourceOf(address, {}));
  const names = (await open(library).then((each) => each.readAll())).modules.map(
    ({ functionNames }) => functionNames,
  );
  const second = names[0].find((name) => name.startsWith("kernel"));
  assert.deepEqual(await index.find(second), [0]);
  assert.deepEqual(await index.find("again_13"), [0]);
  assert.deepEqual(await index.find("kernel_"), []);
  assert.equal(log.length, 3);
  for (const [number, each] of names.entries())
    for (const name of each)
      if (name !== "__init__" && name !== "later")
        assert.ok((await index.find(name)).includes(number));
});

for (const [form, from] of [
  ["bytes", (data) => data],
  ["a Blob", (data) => new Blob([data])],
  ["a URL with ranges", (data) => (serve(ranges(data)), address)],
  ["a URL without ranges", (data) => (serve(whole(data)), address)],
]) {
  test(`the bytes between two parts are zero: ${form}`, async () => {
    const text =
      /is damaged: the bytes between two of its parts are not zero\. Get the file again$/;
    const changed = (data, at) => {
      assert.equal(data[at], 0);
      const copy = Buffer.from(data);
      copy[at] = 1;
      return from(copy);
    };
    const { modules } = await open(SMALL);
    const [first] = modules
      .filter(({ offset }) => offset !== null)
      .sort((one, other) => one.offset - other.offset);
    await refusal(open(changed(SMALL, first.offset - 1)), FormatError, text);
    const end = first.offset + first.storedSize;
    for (const at of [end, Math.ceil(end / 64) * 64 - 1]) {
      const bundle = await open(changed(SMALL, at));
      await refusal(bundle.modules[first.number].bytes(), FormatError, text);
    }
    const library = readFileSync(
      new URL("../../../../tests/golden/v1/library.devmod", import.meta.url),
    );
    const start = (await open(library).then((each) => each.readAll())).modules.filter(
      ({ offset }) => offset !== null,
    )[0];
    const lead = start.offset % 64; // its payload begins at a multiple of 16
    assert.ok(lead);
    const shifted = await (await open(changed(library, start.offset - 1))).readAll();
    await refusal(shifted.modules[start.number].bytes(), FormatError, text);
    const damaged = changed(library, start.offset - lead - 1);
    const index = await Index.open(await sourceOf(damaged, {})); // the zeros are read with the last page
    assert.deepEqual(await index.find("again_13"), [0]);
    await refusal(index.readAll(), FormatError, text);
  });
}

test("If-Range is sent if the server has sent an ETag", async () => {
  const data = await large(200_000);
  const sent = [];
  serve((request, response, range) => {
    sent.push(request.headers["if-range"]);
    ranges(data)(request, response, range);
  });
  await (await open(address)).modules[1].bytes();
  assert.deepEqual(sent, [undefined, '"one"']);
});

for (const [name, headers] of [
  ["no ETag", {}],
  ["a weak one", { ETag: 'W/"one"' }],
  ["no Content-Range that shows", { "Content-Range": "" }],
]) {
  test(`a server with ${name}`, async () => {
    const data = await large(200_000);
    const sent = [];
    serve((request, response, range) => {
      sent.push(request.headers["if-range"]);
      ranges(data, headers)(request, response, range);
    });
    assert.equal((await (await open(address)).modules[1].bytes()).length, 2);
    assert.deepEqual(sent, [undefined, undefined]);
  });
}

test("a server without range requests: the response is read as far as needed", async () => {
  const data = await large(300_000);
  serve(whole(data));
  const bundle = await open(address);
  assert.equal((await bundle.modules[1].bytes()).length, 2);
  assert.equal(log.length, 1);
  bundle.close();
});

test("without ranges an endless response is closed as soon as it is not a bundle", async () => {
  let closed;
  const left = new Promise((resolve) => (closed = resolve));
  serve((_request, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write(Buffer.alloc(65536)), 1);
    response.on("close", () => {
      clearInterval(timer);
      closed();
    });
  });
  await refusal(open(address), FormatError, /is not a bundle/);
  await left;
});

test("an empty file", async () => {
  serve((_request, response) => response.writeHead(416).end());
  await refusal(open(address), FormatError, /is not a bundle/);
  serve(whole(Buffer.alloc(0)));
  await refusal(open(address), FormatError, /is not a bundle/);
});

test("no such file", async () => {
  serve((_request, response) => response.writeHead(404).end("gone"));
  await refusal(
    open(address),
    FetchError,
    /^'http:.*k\.devmod' cannot be fetched: the server responded with 404 Not Found$/,
  );
});

test("no such server", async () => {
  await refusal(
    open("http://127.0.0.1:1/k.devmod"),
    FetchError,
    /cannot be fetched: .*Check that the server is running and allows this page \(CORS\)$/,
  );
});

test("another part than the requested one", async () => {
  serve((_request, response) =>
    response.writeHead(206, { "Content-Range": `bytes 5-9/${SMALL.length}` }).end("12345"),
  );
  await refusal(
    open(address),
    FetchError,
    /: the server responded to a request for bytes 0 to 28671 with bytes 5 to 9$/,
  );
});

test("fewer bytes than the Content-Range has", async () => {
  serve((_request, response) =>
    response
      .writeHead(206, { "Content-Range": `bytes 0-99/${SMALL.length}` })
      .end(SMALL.subarray(0, 50)),
  );
  await refusal(
    open(address),
    FetchError,
    /: the server responded to a request for bytes 0 to 28671 with 50 bytes, but its Content-Range has 100$/,
  );
});

test("more bytes than requested", async () => {
  serve((_request, response) => response.writeHead(206).end(Buffer.alloc(100_000)));
  await refusal(
    open(address),
    FetchError,
    /: the server responded to a request for bytes 0 to 28671 with more than 28672$/,
  );
});

test("a connection that breaks", async () => {
  serve((_request, response) => {
    response.writeHead(206, {
      "Content-Range": `bytes 0-99/${SMALL.length}`,
      "Content-Length": 100,
    });
    response.write(SMALL.subarray(0, 50), () => response.destroy());
  });
  await refusal(open(address), FetchError, /: the connection broke after \d+ of 100 bytes: /);
  serve((_request, response) => {
    response.writeHead(200, { "Content-Length": 1000 });
    response.write(SMALL.subarray(0, 20), () => response.destroy());
  });
  await refusal(open(address), FetchError, /: the connection broke after \d+ bytes: /);
});

for (const [name, change] of [
  ["its ETag", (data) => ranges(data, { ETag: '"two"' })],
  ["its size", (data) => ranges(Buffer.concat([data, data]))],
  ["the whole file in answer to If-Range", (data) => whole(data)],
]) {
  test(`a file that changes meanwhile: ${name}`, async () => {
    const data = await large(200_000);
    serve(ranges(data));
    const bundle = await open(address);
    serve(change(data));
    await refusal(
      bundle.modules[1].bytes(),
      ChangedError,
      /^'http:.*' changed on the server while it was being read\. Open it again$/,
    );
    serve(ranges(data));
    assert.equal((await bundle.modules[1].bytes()).length, 2, "failures are not cached");
  });
}

test("a changed file with the same date and size is detected by its digest", async () => {
  const data = await large(200_000);
  serve(ranges(data, {}));
  const bundle = await open(address);
  data[data.length - 1] ^= 1;
  await refusal(bundle.modules[1].bytes(), FormatError, /the webgpu module is damaged/);
});

test("a file with a size below that in its index", async () => {
  serve(ranges(SMALL.subarray(0, SMALL.length - 1)));
  await refusal(open(address), FormatError, /is cut short: 3035 bytes; expected are 3036$/);
});

test("a caller's own signal", async () => {
  serve(() => {}); // it never answers
  const reason = new Error("enough");
  const stop = new AbortController();
  const opening = open(address, { signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(opening, (error) => error === reason);
});

test("a caller's own signal, and a bundle that is closed, while a server without ranges still sends", async () => {
  const data = await large(300_000);
  const half = (_request, response) => {
    response.writeHead(200);
    response.write(data.subarray(0, 150_000)); // the rest never comes
  };
  const reason = new Error("enough");
  const stop = new AbortController();
  serve(half);
  const ended = (await open(address, { signal: stop.signal })).modules[1].bytes();
  stop.abort(reason);
  await assert.rejects(ended, (error) => error === reason);
  const bundle = await open(address);
  const closed = bundle.modules[1].bytes();
  bundle.close();
  await refusal(
    closed,
    FetchError,
    /^'http:.*k\.devmod' was closed before all of it was read\. Open it again$/,
  );
  await refusal(
    bundle.modules[1].bytes(),
    FetchError,
    / was closed before all of it was read\. Open it again$/,
  );
});

test("an invalid URL", async () => {
  await refusal(open("http://"), FetchError, /^'http:\/\/' is not a valid URL$/);
});

test("a file shorter than its index describes, on a server that reports no size", async () => {
  const data = await large(200_000);
  serve((request, response, range) => {
    if (range.first > 100_000) response.writeHead(416).end();
    else ranges(data, { "Content-Range": "" })(request, response, range);
  });
  await refusal(
    (await open(address)).modules[1].bytes(),
    FormatError,
    /is cut short: the webgpu module takes 2 bytes, and 0 are left$/,
  );
});

const HEAD = SMALL.subarray(16, 48).toString("hex");
const OTHER = "0123456789abcdef".repeat(4);
/** The file with a head that is no msgpack, which shows if it is parsed. */
const STRANGE = Buffer.from(SMALL);
STRANGE[48] = 0xc1;
createHash("sha256")
  .update(STRANGE.subarray(48, 48 + STRANGE.readUInt32LE(12)))
  .digest()
  .copy(STRANGE, 16);

test("an address by digest opens the file with this head, and no other one", async () => {
  for (const how of [ranges, whole]) {
    serve(how(SMALL));
    assert.equal((await open(`${address}#devmod-head=${HEAD}`)).modules.length, 10);
    const pinned = new URL(`${address}#devmod-head=${HEAD}`);
    assert.equal((await open(pinned)).modules.length, 10);
    assert.equal(pinned.hash, `#devmod-head=${HEAD}`);
    assert.equal((await open(`${address}#notes`)).modules.length, 10);
    const reason = new RegExp(
      `^'http:.*k\\.devmod' is another file: expected a head with the SHA-256 ${OTHER}, got ${HEAD}\\. Check the address`,
    );
    await refusal(open(`${address}#devmod-head=${OTHER}`), FormatError, reason);
    serve(how(STRANGE));
    const found = open(`${address}#devmod-head=${HEAD}`);
    await refusal(found, FormatError, /k\.devmod' is another file: expected a head/);
    const changed = Buffer.from(SMALL);
    changed[60] ^= 1;
    serve(how(changed)); // its header has the digest of the other head
    const damaged = open(`${address}#devmod-head=${HEAD}`);
    await refusal(damaged, FormatError, /the SHA-256 of its head is not the one in its header/);
  }
});

test("an address by digest that is malformed is refused before a request", async () => {
  serve(ranges(SMALL));
  for (const fragment of [
    "devmod-head",
    "devmod-head=",
    `devmod-head=${HEAD.toUpperCase()}`,
    `devmod-head=${HEAD.slice(1)}`,
    `devmod-head=${HEAD}0`,
    `devmod-head=${HEAD}&notes`,
    `notes&devmod-head=${HEAD}`,
    `Devmod-Head=${HEAD}`,
  ]) {
    for (const from of [`${address}#${fragment}`, new URL(`${address}#${fragment}`)]) {
      const reason =
        /^the address 'http:.*#.* is invalid: expected 64 lower-case hexadecimal digits/;
      await refusal(open(from), ArgumentError, reason);
    }
  }
  assert.deepEqual(log, []);
});

test("the option head is the digest of a file in memory, a Blob or a URL", async () => {
  serve(ranges(SMALL));
  for (const from of [SMALL, new Blob([SMALL]), address, `${address}#devmod-head=${HEAD}`]) {
    assert.equal((await open(from, { head: HEAD })).modules.length, 10);
    await refusal(open(from, { head: OTHER }), FormatError, / is another file: expected a head/);
    for (const head of ["", HEAD.toUpperCase(), 7, null]) {
      const reason = /^the option head is invalid: expected 64 lower-case hexadecimal digits/;
      await refusal(open(from, { head }), ArgumentError, reason);
    }
  }
  const both = open(`${address}#devmod-head=${OTHER}`, { head: HEAD });
  await refusal(both, FormatError, new RegExp(`expected a head with the SHA-256 ${OTHER}`));
});

test("headers and a fetch of the caller's", async () => {
  let token;
  serve((request, response, range) => {
    token = request.headers["x-token"];
    ranges(SMALL)(request, response, range);
  });
  const asked = [];
  const own = (...given) => {
    asked.push(String(given[0]));
    return fetch(...given);
  };
  for (const from of [address, `${address}#devmod-head=${HEAD}`])
    await open(from, { headers: { "X-Token": "mine" }, fetch: own });
  assert.deepEqual([token, asked], ["mine", [address, address]]);
});

test("what a bundle is opened from", async () => {
  assert.equal((await open(new Blob([SMALL]))).modules.length, 10);
  assert.equal(
    (await open(SMALL.buffer.slice(SMALL.byteOffset, SMALL.byteOffset + SMALL.length))).modules
      .length,
    10,
  );
  await refusal(open(7), FormatError, /^expected a URL, a File, a Blob or bytes, got number$/);
  await refusal(open(null), FormatError, /got null$/);
});
