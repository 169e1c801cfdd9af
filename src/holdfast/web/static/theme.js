// Before anything is drawn, so that nobody who chose dark is dazzled.
{
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
}
