const USERS = new Map([[1, "Ada"]]);

async function loadUser(id) {
  const name = USERS.get(id);
  return { name, toString: () => `user ${id}` };
}

module.exports = { loadUser };
