const assert = require("node:assert");
const { Queue } = require("./queue.js");

const queue = new Queue();
assert.strictEqual(queue.size, 0);
queue.add(1);
queue.add(2);
assert.strictEqual(queue.size, 2);
assert.strictEqual(queue.take(), 1);
assert.strictEqual(queue.size, 1);
queue.clear();
assert.strictEqual(queue.size, 0);
assert.strictEqual(queue.take(), undefined);
queue.add(3);
assert.strictEqual(queue.take(), 3);
