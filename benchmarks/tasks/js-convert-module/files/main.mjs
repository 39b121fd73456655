import math from "./math.js";

console.log(math.add(2, 3), math.multiply(2, 3));
