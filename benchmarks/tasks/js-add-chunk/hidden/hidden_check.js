const assert = require("node:assert");
const { chunk, unique, last } = require("./lists.js");

assert.deepStrictEqual(chunk([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]);
assert.deepStrictEqual(chunk([1, 2, 3], 3), [[1, 2, 3]]);
assert.deepStrictEqual(chunk([], 2), []);
assert.deepStrictEqual(unique([1, 1, 2]), [1, 2]);
assert.strictEqual(last([1, 2]), 2);
