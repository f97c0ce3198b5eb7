/**
 * Orthographic camera around the grid, its projection and ray picking. Pure. Writes into the caller's
 * arrays, so that turning the grid allocates nothing.
 *
 * @typedef {Object} Camera
 * @property {number} yaw @property {number} pitch radians
 * @property {number} zoom 1: the whole box fits @property {number} panX @property {number} panY pixels
 * @property {Float32Array} right @property {Float32Array} up @property {Float32Array} forward unit vectors
 * @property {number} scale pixels per unit @property {number} width @property {number} height
 */
import { FIRST_PITCH } from './layout.mjs';

const HALF = 0.5;
const LARGEST = 96;  // pixels of a cube before zooming: a single rank must not fill the picture

/** @returns {Camera} */
export function makeCamera({ flat, yaw = 0 }) {
  return {
    yaw, pitch: flat ? Math.PI / 2 : FIRST_PITCH, zoom: 1, panX: 0, panY: 0,
    right: new Float32Array(3), up: new Float32Array(3), forward: new Float32Array(3),
    scale: 1, width: 1, height: 1, centreX: 0, centreY: 0,
  };
}

/** Aim the camera so that a box of `size` around 0 fits into the canvas less its margins. */
export function aim(camera, size, width, height, margin) {
  const [sy, cy, sp, cp] = [Math.sin(camera.yaw), Math.cos(camera.yaw), Math.sin(camera.pitch), Math.cos(camera.pitch)];
  camera.right.set([cy, 0, sy]);
  camera.up.set([sy * sp, cp, -cy * sp]);
  camera.forward.set([sy * cp, -sp, -cy * cp]);
  const reach = (axis) => size[0] * Math.abs(axis[0]) + size[1] * Math.abs(axis[1]) + size[2] * Math.abs(axis[2]);
  const [freeX, freeY] = [width - margin.left - margin.right, height - margin.top - margin.bottom];
  camera.scale = camera.zoom * Math.min(freeX / reach(camera.right), freeY / reach(camera.up), LARGEST);
  camera.width = width;
  camera.height = height;
  camera.centreX = margin.left + freeX / 2 + camera.panX;
  camera.centreY = margin.top + freeY / 2 + camera.panY;
  return camera;
}

/** Pixel of a point: written to out[0], out[1]. */
export function project(camera, x, y, z, out) {
  const { right: r, up: u, scale } = camera;
  out[0] = camera.centreX + scale * (x * r[0] + y * r[1] + z * r[2]);
  out[1] = camera.centreY - scale * (x * u[0] + y * u[1] + z * u[2]);
  return out;
}

/**
 * Index of the nearest cube (side 1) that the ray through a pixel hits, -1 none.
 * @param {Camera} camera @param {Float32Array} positions x, y, z of each
 */
export function pick(camera, positions, pixelX, pixelY) {
  const { right: r, up: u, forward: f, scale } = camera;
  const a = (pixelX - camera.centreX) / scale;
  const b = (camera.centreY - pixelY) / scale;
  const [ox, oy, oz] = [r[0] * a + u[0] * b, r[1] * a + u[1] * b, r[2] * a + u[2] * b];
  const [ix, iy, iz] = [1 / f[0], 1 / f[1], 1 / f[2]];
  let best = -1;
  let nearest = Infinity;
  for (let i = 0, x = 0; x < positions.length; i++, x += 3) {
    const [cx, cy, cz] = [positions[x] - ox, positions[x + 1] - oy, positions[x + 2] - oz];
    let low = -Infinity;
    let high = Infinity;
    for (let axis = 0; axis < 3; axis++) {
      const centre = axis === 0 ? cx : axis === 1 ? cy : cz;
      const inverse = axis === 0 ? ix : axis === 1 ? iy : iz;
      if (!Number.isFinite(inverse) || Math.abs(inverse) > 1e9) {  // the ray is parallel to this slab
        if (Math.abs(centre) > HALF) { low = Infinity; break; }
        continue;
      }
      const t1 = (centre - HALF) * inverse;
      const t2 = (centre + HALF) * inverse;
      low = Math.max(low, Math.min(t1, t2));
      high = Math.min(high, Math.max(t1, t2));
    }
    if (low <= high && low < nearest) {
      nearest = low;
      best = i;
    }
  }
  return best;
}
