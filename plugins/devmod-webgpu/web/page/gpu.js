// The GPU device of this page: one for all bundles and forms. It is requested at its first use, and again after a loss.

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
