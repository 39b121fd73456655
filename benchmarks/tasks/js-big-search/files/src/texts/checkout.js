module.exports = {
  title: "Checkout",
  intro: "Welcome to checkout.",
};
