const assert = require("node:assert");
const { Stack } = require("./stack.js");

const stack = new Stack();
assert.strictEqual(stack.length, 0);
assert.strictEqual(stack.pop(), undefined);
stack.push("a");
stack.push("b");
assert.strictEqual(stack.length, 2);
assert.strictEqual(stack.pop(), "b");
assert.strictEqual(stack.pop(), "a");
assert.strictEqual(stack.length, 0);
assert.strictEqual(new Stack().length, 0);
