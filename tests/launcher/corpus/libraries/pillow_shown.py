from PIL import Image

image = Image.new("CMYK", (20, 10), "red")
print(image.show(), image.mode, image.getpixel((1, 1)))
image.save("image.jpg")
Image.open("image.jpg").show("a title")
Image.open("image.jpg")
