/**
 * Draws the cubes with WebGL2: one instance per rank, with a byte of colour and a byte of marks each.
 * The camera is orthographic, so at most three sides of a cube are visible: only these are drawn.
 */
import { FLAGS } from './layout.mjs';

const VERTEX = `#version 300 es
layout(location=0) in vec3 centre; layout(location=1) in uint code; layout(location=2) in uint flags;
uniform vec3 right, up, forward; uniform vec4 view; uniform float depth, shade; uniform vec3 sides;
uniform sampler2D table;
out vec2 uv; flat out vec4 colour; flat out uint marks; flat out float light;
void main() {
  int corner = gl_VertexID % 6, side = gl_VertexID / 6;
  vec2 q = vec2(corner == 1 || corner == 2 || corner == 4 ? 1.0 : 0.0,
                corner == 2 || corner == 4 || corner == 5 ? 1.0 : 0.0);
  float grown = (flags & ${FLAGS.culprit | FLAGS.selected}u) != 0u ? 1.16 : 1.0;
  vec2 s = (q - 0.5) * grown;
  vec3 p = side == 0 ? vec3(sides.x * 0.5 * grown, s.y, s.x)
         : side == 1 ? vec3(s.x, sides.y * 0.5 * grown, s.y) : vec3(s.x, s.y, sides.z * 0.5 * grown);
  p += centre;
  gl_Position = vec4(dot(p, right) * view.x + view.z, dot(p, up) * view.y + view.w, dot(p, forward) / depth, 1.0);
  uv = q; marks = flags; colour = texelFetch(table, ivec2(int(code), 0), 0);
  light = mix(1.0, side == 1 ? 1.0 : side == 2 ? 0.84 : 0.7, shade);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec2 uv; flat in vec4 colour; flat in uint marks; flat in float light;
uniform vec3 panel, line, text, link, fault, tp, pp, dp, ep;
out vec4 shown;
void main() {
  vec2 d = min(uv, 1.0 - uv);
  float edge = min(d.x, d.y), along = d.x < d.y ? uv.y : uv.x;
  vec3 c = colour.rgb;
  if (colour.a < 0.5) {  // not recorded: hatched
    c = fract((uv.x + uv.y) * 3.0) < 0.3 ? line : panel;
  }
  if ((marks & ${FLAGS.culprit}u) != 0u) c = fault;
  c *= light;
  // groups of the selected rank: TP a solid frame, PP a dashed one, DP corners,
  // EP what is between them; a victim's frame inside
  bool framed = (marks & ${FLAGS.tp | FLAGS.pp | FLAGS.dp | FLAGS.ep}u) != 0u;
  float inner = framed ? 0.14 : 0.0;
  if ((marks & ${FLAGS.victim}u) != 0u && edge >= inner && edge < inner + 0.1) c = text;
  if ((marks & ${FLAGS.tp}u) != 0u && edge < 0.13) c = tp;
  if ((marks & ${FLAGS.pp}u) != 0u && edge < 0.13 && fract(along * 3.5 + 0.25) < 0.6) c = pp;
  if ((marks & ${FLAGS.dp}u) != 0u && edge < 0.13 && max(d.x, d.y) < 0.3) c = dp;
  if ((marks & ${FLAGS.ep}u) != 0u && edge < 0.13 && max(d.x, d.y) > 0.34) c = ep;
  if ((marks & ${FLAGS.selected}u) != 0u && edge < 0.17) c = edge < 0.12 ? link : panel;
  shown = vec4(c, 1.0);
}`;

/** A renderer, null without WebGL2. Without a GPU, smooth edges make a frame take four times as long. */
export function makeRenderer(canvas, antialias = true) {
  const gl = canvas.getContext('webgl2', { antialias, alpha: true, powerPreference: 'low-power' });
  return gl ? new Renderer(gl) : null;
}

class Renderer {
  constructor(gl) {
    this.gl = gl;
    this.program = link(gl);
    gl.useProgram(this.program);
    this.uniforms = {};
    for (let i = 0; i < gl.getProgramParameter(this.program, gl.ACTIVE_UNIFORMS); i++) {
      const { name } = gl.getActiveUniform(this.program, i);
      this.uniforms[name] = gl.getUniformLocation(this.program, name);
    }
    this.buffers = [0, 1, 2].map(() => gl.createBuffer());
    this.array = gl.createVertexArray();
    gl.bindVertexArray(this.array);
    this.buffers.forEach((buffer, location) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(location);
      if (location === 0) gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0);
      else gl.vertexAttribIPointer(location, 1, gl.UNSIGNED_BYTE, 0, 0);
      gl.vertexAttribDivisor(location, 1);
    });
    this.texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
    gl.enable(gl.DEPTH_TEST);
    this.sides = new Float32Array(3);
    this.view = new Float32Array(4);
    this.count = 0;
  }

  /** @param {Float32Array} positions */
  setPositions(positions) {
    this.count = positions.length / 3;
    this.#fill(0, positions);
  }

  /** One byte per rank; @param {Uint8Array} codes */
  setCodes(codes) { this.#fill(1, codes); }

  /** @param {Uint8Array} flags */
  setFlags(flags) { this.#fill(2, flags); }

  #fill(location, content) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[location]);
    gl.bufferData(gl.ARRAY_BUFFER, content, location ? gl.DYNAMIC_DRAW : gl.STATIC_DRAW);
  }

  /** Colours of the bytes and of the marks. */
  setTheme(table, theme) {
    const { gl } = this;
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(table));
    for (const name of ['panel', 'line', 'text', 'link', 'fault', 'tp', 'pp', 'dp', 'ep']) {
      const c = theme[name];
      gl.uniform3f(this.uniforms[name], ...[1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16) / 255));
    }
  }

  /** @param {import('./camera.mjs').Camera} camera @param {number} radius of the box around 0 */
  draw(camera, radius) {
    const { gl, uniforms, view, sides } = this;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    for (let i = 0; i < 3; i++) sides[i] = camera.forward[i] > 0 ? -1 : 1;
    view[0] = 2 * camera.scale / camera.width;
    view[1] = 2 * camera.scale / camera.height;
    view[2] = 2 * camera.centreX / camera.width - 1;
    view[3] = 1 - 2 * camera.centreY / camera.height;
    gl.uniform3fv(uniforms.right, camera.right);
    gl.uniform3fv(uniforms.up, camera.up);
    gl.uniform3fv(uniforms.forward, camera.forward);
    gl.uniform4fv(uniforms.view, view);
    gl.uniform3fv(uniforms.sides, sides);
    gl.uniform1f(uniforms.depth, radius + 2);
    gl.uniform1f(uniforms.shade, Math.min(1, Math.max(0.12, (camera.scale - 4) / 8)));  // sides of 1 pixel would only flicker
    gl.drawArraysInstanced(gl.TRIANGLES, 0, 18, this.count);
  }

  destroy() { this.gl.getExtension('WEBGL_lose_context')?.loseContext(); }
}

function link(gl) {
  const program = gl.createProgram();
  for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
    throw new Error(`the grid's shader does not link: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}
