const assert = require("node:assert");
const { label, labels } = require("./labels.js");

assert.strictEqual(label("tea", 0), "tea: 0");
assert.strictEqual(label("tea", 3), "tea: 3");
assert.strictEqual(label("tea"), "tea: unknown");
assert.strictEqual(label("tea", null), "tea: unknown");
assert.deepStrictEqual(labels({ a: 0, b: 1 }), ["a: 0", "b: 1"]);
