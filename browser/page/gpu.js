// The GPU device of this page, one for all bundles and forms, and its runs. It is requested at its first use, and again after a loss.

import { requestDevice } from "./devmod-webgpu/index.js";

let device = null;

/** Return the device. Raise DeviceNotFoundError if this browser has none. */
export async function sharedDevice() {
  device ??= requestDevice().then((created) => {
    created.lost.then(() => (device = null));
    return created;
  });
  device.catch(() => (device = null));
  return device;
}

/** Wrap `work` so that only one run is active. Of several calls during a run, only the last one runs afterwards. */
export function newest(work, failed) {
  let busy = false;
  let again = false;
  return async function run() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    do {
      again = false;
      try {
        await work();
      } catch (error) {
        failed(error);
      }
    } while (again);
    busy = false;
  };
}
