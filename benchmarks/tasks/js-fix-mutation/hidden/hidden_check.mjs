import assert from "node:assert";
import { addItem, removeItem, total } from "./cart.mjs";

const old = { owner: "Ada", items: [{ name: "tea", price: 4 }] };
const cart = addItem(old, "milk", 2);
assert.deepStrictEqual(old, { owner: "Ada", items: [{ name: "tea", price: 4 }] });
assert.deepStrictEqual(cart, {
  owner: "Ada",
  items: [
    { name: "tea", price: 4 },
    { name: "milk", price: 2 },
  ],
});
assert.strictEqual(total(cart), 6);
assert.strictEqual(removeItem(cart, "tea").items.length, 1);
