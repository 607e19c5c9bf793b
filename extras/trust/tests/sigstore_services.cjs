// The services Fulcio and Rekor of sigstore on this machine, from @sigstore/mock. Prints the configuration of a client as JSON. The folder of its
// package is the argument.
const http = require("http"), crypto = require("crypto");
const { fulcioHandler, initializeCA, initializeCTLog, initializeTLog, rekorHandler } = require(require.resolve("@sigstore/mock", { paths: [process.argv[2]] }));
const pair = () => crypto.generateKeyPairSync("ec", { namedCurve: "prime256v1" });
(async () => {
  const caKeys = pair(), ctKeys = pair(), logKeys = pair();
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", async () => {
      const handler = handlers.find((each) => each.path === request.url);
      let content = Buffer.concat(parts).toString();
      if (request.url.endsWith("signingCert")) {  // the mock wants PEM, and the API has base64 of it
        const asked = JSON.parse(content);
        asked.certificateSigningRequest = Buffer.from(asked.certificateSigningRequest, "base64").toString();
        asked.credentials = { oidcIdentityToken: request.headers.authorization.replace("Bearer ", "") };
        content = JSON.stringify(asked);
      }
      if (request.url.endsWith("entries")) {  // the mock keeps what was proposed, and Rekor keeps digests of it
        const entry = JSON.parse(content), { envelope, verifiers } = entry.spec.proposedContent, parsed = JSON.parse(envelope);
        const hash = (data) => ({ algorithm: "sha256", value: crypto.createHash("sha256").update(data).digest("hex") });
        entry.spec = { envelopeHash: hash(envelope), payloadHash: hash(Buffer.from(parsed.payload, "base64")),
          signatures: parsed.signatures.map((each) => ({ signature: each.sig, verifier: verifiers[0] })) };
        content = JSON.stringify(entry);
      }
      const { statusCode, response: body, contentType } = handler ? await handler.fn(content) : { statusCode: 404, response: "" };
      if (statusCode >= 400) console.error(request.url, statusCode, body); response.writeHead(statusCode, { "Content-Type": contentType || "text/plain" });
      response.end(body);
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}`;
  const ctlog = await initializeCTLog(ctKeys), ca = await initializeCA(caKeys, ctlog), tlog = await initializeTLog(url, logKeys);
  const handlers = [fulcioHandler(ca, { subjectClaim: "email" }), rekorHandler(tlog)];
  const start = new Date(Date.now() - 3600_000).toISOString();
  const log = (keys) => {
    const key = keys.publicKey.export({ format: "der", type: "spki" });
    return { baseUrl: url, hashAlgorithm: "SHA2_256", logId: { keyId: crypto.createHash("sha256").update(key).digest("base64") },
      publicKey: { rawBytes: key.toString("base64"), keyDetails: "PKIX_ECDSA_P256_SHA_256", validFor: { start } } };
  };
  const service = [{ url, majorApiVersion: 1, validFor: { start }, operator: "test" }];
  console.log(JSON.stringify({
    mediaType: "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
    trustedRoot: { mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1", tlogs: [log(logKeys)], ctlogs: [log(ctKeys)],
      certificateAuthorities: [{ subject: { organization: "test", commonName: "test" }, uri: url, validFor: { start },
        certChain: { certificates: [{ rawBytes: Buffer.from(ca.rootCertificate).toString("base64") }] } }], timestampAuthorities: [] },
    signingConfig: { mediaType: "application/vnd.dev.sigstore.signingconfig.v0.2+json", caUrls: service, oidcUrls: service, rekorTlogUrls: service,
      tsaUrls: [], rekorTlogConfig: { selector: "ANY" }, tsaConfig: { selector: "ANY" } },
  }));
})();
