// Read a .safetensors file: eight bytes with the length of the header, the header as JSON, then the numbers.

/** The types of numbers that a file may have. */
const TYPES = { F32: Float32Array, I8: Int8Array };

/**
 * Return the tensors of a file. A matrix of 8-bit integers is multiplied by the scales of its rows, which the file has under
 * the name `NAME.scale`, as transformer/interactive/int8_weights.py does.
 *
 * @param {ArrayBuffer} file
 * @returns {Object<string, {shape: number[], data: Float32Array}>} by name; row-major, 32-bit floats.
 */
export function readTensors(file) {
  const start = 8 + Number(new DataView(file).getBigUint64(0, true));
  const { __metadata__, ...header } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, start - 8)));
  const read = (name) => {
    const { dtype, data_offsets: [from, to] } = header[name];
    if (!TYPES[dtype]) throw new Error(`${name} has the type ${dtype}; supported types: ${Object.keys(TYPES).join(", ")}`);
    return new TYPES[dtype](file.slice(start + from, start + to)); // a copy, because it may not be aligned
  };
  const tensors = {};
  for (const [name, { shape, dtype }] of Object.entries(header)) {
    if (name.endsWith(".scale")) continue;
    const data = read(name);
    tensors[name] = { shape, data: dtype === "I8" ? dequantize(data, read(`${name}.scale`)) : data };
  }
  return tensors;
}

/** Return the numbers of a matrix: each integer times the scale of its row. */
function dequantize(integers, scales) {
  const width = integers.length / scales.length;
  const data = new Float32Array(integers.length);
  for (let row = 0, i = 0; row < scales.length; row++) {
    for (const end = i + width; i < end; i++) data[i] = integers[i] * scales[row];
  }
  return data;
}
