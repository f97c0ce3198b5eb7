/** Whether this browser has a GPU for its canvases. */

let software = null;

/** Whether WebGL is drawn by the CPU here: then 2D canvases must not ask the GPU either. */
export function isSoftwareGl() {
  software ??= findSoftwareGl();
  return software;
}

function findSoftwareGl() {
  const gl = document.createElement('canvas').getContext('webgl2');
  if (!gl) return true;
  const info = gl.getExtension('WEBGL_debug_renderer_info');
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : '';
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}
