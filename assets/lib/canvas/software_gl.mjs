/** Whether this browser has a GPU for its canvases. */

let isSoftware = null;

/** Whether the CPU draws WebGL here: then 2D canvases must not use the GPU path either. */
export function isSoftwareGl() {
  isSoftware ??= findSoftwareGl();
  return isSoftware;
}

function findSoftwareGl() {
  const gl = document.createElement('canvas').getContext('webgl2');
  if (!gl) return true;
  const info = gl.getExtension('WEBGL_debug_renderer_info');
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : '';
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}
