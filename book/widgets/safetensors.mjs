// Read a .safetensors file: eight bytes with the length of the header, the header as JSON, then the numbers.

/** The value of every 16-bit float, computed at the first use. */
let halfValues = null;

/** Decode a 16-bit float: one sign bit, five bits of exponent, ten of fraction. */
function decodeHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/**
 * Return the tensors of a file.
 *
 * @param {ArrayBuffer} file
 * @returns {Object<string, {shape: number[], data: Float32Array}>} by name; row-major, 32-bit floats.
 */
export function readTensors(file) {
  const start = 8 + Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, start - 8)));
  delete header.__metadata__;
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    const bytes = file.slice(start + data_offsets[0], start + data_offsets[1]);
    if (dtype === "F32") {
      tensors[name] = { shape, data: new Float32Array(bytes) };
    } else if (dtype === "F16") {
      halfValues ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => decodeHalf(bits));
      const stored = new Uint16Array(bytes);
      const data = new Float32Array(stored.length);
      for (let i = 0; i < data.length; i++) data[i] = halfValues[stored[i]];
      tensors[name] = { shape, data };
    } else {
      throw new Error(`${name} has the type ${dtype}; supported are F16 and F32`);
    }
  }
  return tensors;
}
