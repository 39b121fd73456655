const { loadUser } = require("./users.js");

async function main() {
  const user = await loadUser(1);
  console.log(`Hello, ${user.name}! (${user})`);
}

main();
