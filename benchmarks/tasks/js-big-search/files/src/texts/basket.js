module.exports = {
  title: "Basket",
  intro: "Welcome to basket.",
};
