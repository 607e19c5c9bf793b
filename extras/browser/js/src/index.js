// devmod-webgpu: open a `.devmod` bundle in the browser and run its WebGPU kernels and programs.
//
//     import { open } from "devmod-webgpu";
//     const bundle = await open("kernels.devmod");
//     const scale = await bundle.getFunction("scale");
//     await scale.run({ x, factor: 2.5, n: x.length }, { threads: x.length });

export { Bundle, Module, open } from "./bundle.js";
export { defaultDevice, requestDevice } from "./device.js";
export {
  ArgumentError,
  ChangedError,
  CompileError,
  DeviceLostError,
  DeviceNotFoundError,
  DevmodError,
  FetchError,
  FormatError,
  FunctionNotFoundError,
  LaunchError,
  NoModuleError,
} from "./errors.js";
export { KernelFunction } from "./function.js";
export { Image, image, imageFrom, Sampler, sampler } from "./images.js";
export { Launch } from "./launch.js";

/** @typedef {import("./bundle.js").FunctionOptions} FunctionOptions */
/**
 * @template {Record<string, import("./function.js").Value>} [Named=Record<string, import("./function.js").Value>]
 * @typedef {import("./function.js").Arguments<Named>} Arguments
 */
/** @typedef {import("./function.js").Value} Value */
/** @typedef {import("./head.js").Origin} Origin */
/** @typedef {import("./programfunction.js").ProgramFunction} ProgramFunction */
/** @typedef {import("./texels.js").Texels} Texels */
/** @typedef {import("./interface.js").Interface} Interface */
/** @typedef {import("./members.js").Member} Member */
/** @typedef {import("./interface.js").Param} Param */
/** @typedef {import("./scalars.js").Scalar} Scalar */
/** @typedef {import("./records.js").Struct} Struct */
/** @typedef {import("./shape.js").Dims} Dims */
/** @typedef {import("./shape.js").LaunchConfig} LaunchConfig */
/** @typedef {import("./shape.js").LaunchOptions} LaunchOptions */
/** @typedef {import("./source.js").FetchOptions} FetchOptions */
/** @typedef {import("./wire.js").Constant} Constant */
/** @typedef {import("./wire.js").Contents} Contents */
/** @typedef {import("./wire.js").FunctionInfo} FunctionInfo */
