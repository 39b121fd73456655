const limits = {
  connections: 20,
  retries: 6,
  timeout: 45,
};

module.exports = { limits };
