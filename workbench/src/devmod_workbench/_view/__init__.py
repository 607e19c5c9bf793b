"""`devmod view`: a page that shows a file in the browser, and runs its WebGPU kernels there."""
