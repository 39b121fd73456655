const assert = require("node:assert");
const { range } = require("./range.js");

assert.deepStrictEqual(range(1, 3), [1, 2, 3]);
assert.deepStrictEqual(range(0, 9, 5), [0, 5]);
assert.deepStrictEqual(range(4, 4), [4]);
assert.deepStrictEqual(range(5, 1), []);
