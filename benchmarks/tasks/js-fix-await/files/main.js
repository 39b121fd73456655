const { loadUser } = require("./users.js");

async function main() {
  const user = loadUser(1);
  console.log(`Hello, ${user.name}! (${user})`);
}

main();
