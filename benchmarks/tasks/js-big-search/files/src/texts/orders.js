module.exports = {
  title: "Orders",
  intro: "Welcome to orders.",
};
