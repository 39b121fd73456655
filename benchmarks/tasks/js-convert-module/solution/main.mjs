import { add, multiply } from "./math.mjs";

console.log(add(2, 3), multiply(2, 3));
