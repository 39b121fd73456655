const { title } = require("./titles");

console.log(title("hello world"));
