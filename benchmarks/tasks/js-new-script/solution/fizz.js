for (let number = 1; number <= Number(process.argv[2]); number++) {
  const word = (number % 3 === 0 ? "Fizz" : "") + (number % 5 === 0 ? "Buzz" : "");
  console.log(word || number);
}
