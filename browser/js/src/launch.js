// A prepared launch: its arguments are bound, and each launch is only encoded and queued.

import { checkNotLost } from "./device.js";
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
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      this.#encode(pass);
      pass.end();
      device.queue.submit([encoder.finish()]);
    } finally {
      this.#problem = firstOf(this.#problem, device.popErrorScope());
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
    if (found) throw new LaunchError(`${this.#description}: ${describeError(found.message)}`, { kind: "webgpu" });
  }

  #checkWhole() {
    if (this.#destroyed) {
      throw new LaunchError(`${this.#description}: this launch was destroyed; bind the function again`, { kind: "webgpu" });
    }
  }

  /** Destroy the buffers of its scalars and of its temporaries. It cannot be launched again. */
  destroy() {
    this.#destroyed = true;
    for (const buffer of this.#owned) buffer.destroy();
  }
}

/**
 * Return the first of two errors. A lost device is detected elsewhere.
 * @param {Promise<GPUError | null>} one
 * @param {Promise<GPUError | null>} other
 */
async function firstOf(one, other) {
  const later = other.catch(() => null);
  return (await one) ?? (await later);
}
