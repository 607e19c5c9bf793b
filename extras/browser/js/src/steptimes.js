// The times of a program's steps: each launch is a pass of its own, whose start and end the device writes.

import { Usage } from "./device.js";
import { copied, encoded } from "./launch.js";

/** @import { Encode } from "./launch.js" */

/** The feature of WebGPU that a device needs to measure passes. */
export const TIMESTAMPS = "timestamp-query";
/** The most launches that are measured: WebGPU allows 4096 queries, two for each launch. */
const MOST_LAUNCHES = 2048;
/** A timestamp has 8 bytes and counts nanoseconds. */
const TIMESTAMP_BYTES = 8;

/** Measures the launches of one call. */
export class StepTimes {
  #device;
  #description;
  /** The timestamps, two for each launch. */
  #host = new Uint8Array();
  /** The number of the step of each launch. @type {number[]} */
  #steps = [];

  /**
   * @param {GPUDevice} device
   * @param {string} description
   */
  constructor(device, description) {
    this.#device = device;
    this.#description = description;
  }

  /**
   * Return an encoder with the launches. They are not measured if there are too many, or the device cannot.
   * @param {Encode[]} launches
   * @param {number[]} steps The number of the step of each launch; -1 for a launch that is of no step.
   * @param {{ push(owned: { destroy(): void }): void }} owned Receives what is destroyed after the call.
   * @param {{ push(copy: () => Promise<void>): void }} copies Receives what reads the times.
   */
  encode(launches, steps, owned, copies) {
    const device = this.#device;
    if (!device.features.has(TIMESTAMPS) || !launches.length || launches.length > MOST_LAUNCHES)
      return encoded(device, (pass) => launches.forEach((each) => each(pass)));

    const count = 2 * launches.length;
    const querySet = device.createQuerySet({ type: "timestamp", count });
    owned.push(querySet);
    const encoder = device.createCommandEncoder();
    launches.forEach((each, number) => {
      const timestampWrites = {
        querySet,
        beginningOfPassWriteIndex: 2 * number,
        endOfPassWriteIndex: 2 * number + 1,
      };
      const pass = encoder.beginComputePass({ timestampWrites });
      each(pass);
      pass.end();
    });
    const size = count * TIMESTAMP_BYTES;
    const usage = Usage.QUERY_RESOLVE | Usage.COPY_SRC;
    const buffer = device.createBuffer({ size, usage });
    owned.push(buffer);
    encoder.resolveQuerySet(querySet, 0, count, buffer, 0);
    this.#steps = steps;
    this.#host = new Uint8Array(size);
    copies.push(copied(device, this.#description, encoder, buffer, this.#host, owned));
    return encoder;
  }

  /**
   * Return the milliseconds of each step, with all of its turns; null if nothing was measured.
   * @param {number} count The number of steps.
   */
  read(count) {
    if (!this.#steps.length) return null;
    const stamps = new BigUint64Array(this.#host.buffer);
    const result = new Array(count).fill(0);
    this.#steps.forEach((step, number) => {
      const [start = 0n, end = 0n] = stamps.subarray(2 * number, 2 * number + 2);
      // A timestamp may go back, as that of a GPU that changed its clock.
      if (step >= 0 && end > start) result[step] += Number(end - start) / 1e6;
    });
    return result;
  }
}
