/** Draws the grid without WebGL: the ranks as squares on a 2D canvas, the farthest first. */
import { cssColour } from '../lib/canvas/colour.mjs';
import { project } from './camera.mjs';
import { FLAGS } from './layout.mjs';

export class FlatRenderer {
  constructor(canvas) {
    this.context = canvas.getContext('2d', { willReadFrequently: true });
    this.pixel = [0, 0];
  }

  setPositions(positions) {
    this.positions = positions;
    this.order = Uint32Array.from({ length: positions.length / 3 }, (_, i) => i);
  }

  setCodes(codes) { this.codes = codes; }

  setFlags(flags) { this.flags = flags; }

  setTheme(table, theme) {
    this.colours = Array.from({ length: 256 }, (_, code) => (code ? cssColour(table, code) : theme.line));
    this.theme = theme;
  }

  draw(camera) {
    const { context, positions, theme } = this;
    const scale = context.canvas.width / camera.width;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    const depth = (i) => (positions[3 * i] * camera.forward[0] + positions[3 * i + 1] * camera.forward[1]
      + positions[3 * i + 2] * camera.forward[2]);
    this.order.sort((a, b) => depth(b) - depth(a));
    const side = Math.max(1, camera.scale);
    for (const i of this.order) {
      const [x, y] = project(camera, positions[3 * i], positions[3 * i + 1], positions[3 * i + 2], this.pixel);
      const flag = this.flags[i];
      context.fillStyle = flag & FLAGS.culprit ? theme.fault : this.colours[this.codes[i]];
      context.fillRect(x - side / 2, y - side / 2, side, side);
      const frame = flag & FLAGS.selected ? theme.link : flag & FLAGS.victim ? theme.text
        : flag & FLAGS.tp ? theme.tp : flag & FLAGS.pp ? theme.pp : flag & FLAGS.ep ? theme.ep : flag & FLAGS.dp ? theme.dp : null;
      if (frame) {
        context.strokeStyle = frame;
        context.lineWidth = Math.max(1, side / 8);
        context.strokeRect(x - side / 2, y - side / 2, side, side);
      }
    }
  }

  destroy() {}
}
