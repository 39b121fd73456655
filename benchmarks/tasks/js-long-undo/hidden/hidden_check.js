const assert = require("node:assert");
const handlers = require("./handlers.js");

const names = Object.keys(handlers);
assert.strictEqual(names.length, 20);
for (const name of names) {
  const event = name.slice(2).toLowerCase();
  let state = { counts: { redo: 7 }, log: [], last: "" };
  if (event === "redo") state.counts.redo = 0;
  state = handlers[name](state, "a");
  state = handlers[name](state, "b");
  assert.strictEqual(state.counts[event], 2, name);
  assert.strictEqual(state.last, event);
  assert.deepStrictEqual(state.log, [`${event} a`, `${event} b`]);
  assert.strictEqual(handlers[name](state).counts[event], 2);
}
