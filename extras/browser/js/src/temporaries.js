// The memory of temporaries: those that do not live at the same time share a buffer, by the rule of devmod in Python, and so do calls.

import { newImage } from "./images.js";
import { newBuffer } from "./device.js";

/** @import { Image } from "./images.js" */
/** @import { Constant } from "./wire.js" */

/**
 * Return the number of the buffer of each array, and the sizes of the buffers, the largest first.
 * @param {ReadonlyMap<string, number>} sizes The bytes of each.
 * @param {ReadonlyMap<string, readonly [number, number]>} lifetimes The first and the last step of each.
 * @returns {[Map<string, number>, number[]]}
 */
export function share(sizes, lifetimes) {
  /** The lifetimes in each buffer. @type {(readonly [number, number])[][]} */
  const buffers = [];
  /** @type {number[]} */
  const totals = [];
  const found = [...sizes].flatMap(([name, size]) => {
    const span = lifetimes.get(name); // one that no step uses needs no memory
    return span ? [{ name, size, span }] : [];
  });
  // In the order of their steps, those of one size take the fewest buffers.
  found.sort(
    (one, other) =>
      other.size - one.size ||
      one.span[0] - other.span[0] ||
      one.span[1] - other.span[1] ||
      (one.name < other.name ? -1 : 1),
  );
  const numbers = new Map(
    found.map(({ name, size, span: [first, last] }) => {
      let number = buffers.findIndex((spans) =>
        spans.every(([start, end]) => end < first || last < start),
      );
      if (number < 0) {
        number = buffers.push([]) - 1;
        totals.push(size);
      }
      buffers[number]?.push([first, last]);
      return [name, number];
    }),
  );
  return [numbers, totals];
}

/** The number of forms that are kept. */
const MOST_FORMS = 16;

/**
 * The buffers and the images that the calls of all programs on a device share: its queue is in order. By their form: "" for buffers, and
 * the format and the size of images, as in "rgba8unorm 320,200".
 */
export class Memory {
  /** @type {Map<string, (GPUBuffer | Image)[]>} */
  #kept = new Map();
  /** The constants of all programs. @type {WeakMap<Constant, GPUBuffer>} */
  constants = new WeakMap();

  /** @param {GPUDevice} device */
  constructor(device) {
    this.device = device;
  }

  /**
   * Return what arrays of a form share.
   * @param {string} form
   * @param {readonly number[]} sizes The bytes of each buffer, in descending order.
   */
  take(form, sizes) {
    const kept = this.#kept.get(form) ?? [];
    this.#kept.set(form, kept);
    const [format = "", shape = ""] = form.split(" ");
    sizes.forEach((size, place) => {
      const known = kept[place];
      if (known && ("layers" in known || known.size >= size)) return;
      known?.destroy(); // first, so that both need not fit
      kept[place] = form
        ? newImage(this.device, shape.split(",").map(Number), format)
        : newBuffer(this.device, size);
    });
    return kept.slice(0, sizes.length);
  }

  /** All buffers and images. */
  get all() {
    return [...this.#kept.values()].flat();
  }

  /**
   * Free all after the queued work, if too many forms are kept.
   * @param {number} [most]
   */
  trim(most = MOST_FORMS) {
    if (this.#kept.size <= most) return;
    for (const each of this.all) each.destroy();
    this.#kept.clear();
  }
}

/** @type {WeakMap<GPUDevice, Memory>} */
const memories = new WeakMap();

/**
 * Return the memory that the calls on a device share.
 * @param {GPUDevice} device
 */
export function memoryOf(device) {
  const result = memories.get(device) ?? new Memory(device);
  memories.set(device, result);
  return result;
}
