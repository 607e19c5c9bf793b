// What is encoded: the pass of a call, the copies of its results, and a prepared launch, whose arguments are bound.

import { checkNotLost, padded, readBack, runGuarded, Usage } from "./device.js";
import { describeError, LaunchError } from "./errors.js";

/** @import { Image } from "./images.js" */

/** @typedef {(pass: GPUComputePassEncoder) => void} Encode */

/** A launch with bound arguments. It may be launched again before the previous launch has finished. */
export class Launch {
  #encode;
  #owned;
  #description;
  #destroyed = false;
  /** The first error of the device since the last `done`. @type {Promise<GPUError | null>} */
  #problem = Promise.resolve(null);

  /**
   * @param {GPUDevice} device
   * @param {string} description
   * @param {Encode} encode
   * @param {(GPUBuffer | Image)[]} owned
   */
  constructor(device, description, encode, owned) {
    /** The device on which it runs. */
    this.device = device;
    this.#description = description;
    this.#encode = encode;
    this.#owned = owned;
  }

  /** Queue it once. */
  launch() {
    const { device } = this;
    checkNotLost(device, this.#description);
    this.#checkWhole();
    device.pushErrorScope("validation");
    try {
      device.queue.submit([encoded(device, this.#encode).finish()]);
    } finally {
      const later = device.popErrorScope().catch(() => null); // a lost device is detected elsewhere
      this.#problem = Promise.all([this.#problem, later]).then(([one, other]) => one ?? other);
    }
  }

  /**
   * Encode it into a compute pass of the caller.
   * @param {GPUComputePassEncoder} pass
   */
  encode(pass) {
    this.#checkWhole();
    this.#encode(pass);
  }

  /** Wait until the queued work is done. Throw the first error of this launch. */
  async done() {
    const problem = this.#problem;
    this.#problem = Promise.resolve(null);
    await this.device.queue.onSubmittedWorkDone();
    checkNotLost(this.device, this.#description);
    const found = await problem;
    if (found) throw new LaunchError(`${this.#description}: ${describeError(found.message)}`);
  }

  #checkWhole() {
    if (this.#destroyed) {
      throw new LaunchError(
        `${this.#description}: this launch was destroyed; bind the function again`,
      );
    }
  }

  /** Destroy the buffers of its scalars and of its temporaries. It cannot be launched again. */
  destroy() {
    this.#destroyed = true;
    for (const buffer of this.#owned) buffer.destroy();
  }
}

/**
 * Return an encoder with one pass.
 * @param {GPUDevice} device
 * @param {Encode} encode
 */
export function encoded(device, encode) {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encode(pass);
  pass.end();
  return encoder;
}

/**
 * Return the launch of bound arguments. Its pass is encoded once without a submission, so that validation errors are thrown here.
 * @param {GPUDevice} device
 * @param {string} description
 * @param {(owned: (GPUBuffer | Image)[]) => Encode} bind `owned` receives what the launch destroys.
 */
export async function prepared(device, description, bind) {
  /** @type {(GPUBuffer | Image)[]} */
  const owned = [];
  const encode = await runGuarded(device, description, () => {
    const bound = bind(owned);
    encoded(device, bound).finish();
    return bound;
  });
  return new Launch(device, description, encode, owned);
}

/**
 * Encode a copy of a buffer for the host. Return what waits for it, and copies the bytes to a host array.
 * @param {GPUDevice} device
 * @param {string} description
 * @param {GPUCommandEncoder} encoder
 * @param {GPUBuffer} buffer
 * @param {Uint8Array} host
 * @param {{ push(buffer: GPUBuffer): void }} owned Receives the buffer that is created here.
 */
export function copied(device, description, encoder, buffer, host, owned) {
  const size = host.length;
  const staging = device.createBuffer({
    size: padded(size),
    usage: Usage.MAP_READ | Usage.COPY_DST,
  });
  owned.push(staging);
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, staging.size);
  return filling(description, host, async () =>
    (await readBack(device, description, staging)).subarray(0, size),
  );
}

/**
 * Return what copies bytes to a host array, when they are there.
 * @param {string} description
 * @param {Uint8Array} host
 * @param {() => Promise<Uint8Array>} read
 */
export function filling(description, host, read) {
  const size = host.length;
  return async () => {
    const found = await read();
    if (host.length !== size) {
      throw new LaunchError(
        `${description}: an array was transferred or resized while it ran, so its results cannot be copied back`,
      );
    }
    host.set(found);
  };
}
