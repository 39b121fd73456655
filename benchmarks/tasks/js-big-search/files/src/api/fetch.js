function legacyFetch(path) {
  return { path, old: true };
}

function request(path) {
  return { path, old: false };
}

module.exports = { legacyFetch, request };
