// devmod-webgpu: open a `.devmod` bundle in the browser and run its WebGPU kernels.
//
//     import { open } from "devmod-webgpu";
//     const bundle = await open("kernels.devmod");
//     const scale = await bundle.getFunction("scale");
//     await scale.run([x, 2.5, x.length], { grid: Math.ceil(x.length / 64) });

export { Bundle, Module, open } from "./bundle.js";
export { defaultDevice, requestDevice } from "./device.js";
export {
  ArgumentError, ChangedError, CompileError, DeviceLostError, DeviceNotFoundError, DevmodError, FetchError, FormatError, FunctionNotFoundError,
  LaunchError, NoModuleError,
} from "./errors.js";
export { KernelFunction, Launch } from "./function.js";

/** @typedef {import("./bundle.js").FunctionOptions} FunctionOptions */
/** @typedef {import("./function.js").LaunchOptions} LaunchOptions */
/** @typedef {import("./function.js").Value} Value */
/** @typedef {import("./head.js").Origin} Origin */
/** @typedef {import("./scalars.js").Scalar} Scalar */
/** @typedef {import("./shape.js").Dims} Dims */
/** @typedef {import("./source.js").FetchOptions} FetchOptions */
/** @typedef {import("./wire.js").Constant} Constant */
/** @typedef {import("./wire.js").Contents} Contents */
/** @typedef {import("./wire.js").FunctionInfo} FunctionInfo */
/** @typedef {import("./wire.js").Interface} Interface */
/** @typedef {import("./wire.js").Param} Param */
