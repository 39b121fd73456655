const assert = require("node:assert");
const { range } = require("./range.js");

assert.deepStrictEqual(range(1, 3), [1, 2, 3]);
assert.deepStrictEqual(range(0, 10, 5), [0, 5, 10]);
assert.deepStrictEqual(range(3, 2), []);
console.log("ok");
